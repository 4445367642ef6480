"""`harness predict`: what a suite or a stack would take on devices that need not be at hand."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.listing import Database, PluginPaths, Table, print_table
from harness.cli.suite import Settings
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.predict.suites import Block, KernelPrediction
    from harness.predict.target import Target
    from harness.suite import Profile, Suite

# What a stack alone is predicted at, unless --set says otherwise.
_DEFAULTS = """\
suite: prediction
stacks: [mha]
workload: {kind: generate, batch: 1, prompt_tokens: 1024, new_tokens: 128}
dtype: bfloat16
"""


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def predict(
        suite: Annotated[
            str | None, typer.Argument(metavar="[SUITE]", help="A suite file or its name.")
        ] = None,
        stack: Annotated[
            list[str] | None,
            typer.Option(metavar="STACK", help="In place of a suite; may be repeated."),
        ] = None,
        model: Annotated[str | None, typer.Option(help="A name of 'harness list models'.")] = None,
        hardware: Annotated[
            str,
            typer.Option(
                metavar="NAMES", help="Of 'harness list hardware', 'local', or a YAML file of such."
            ),
        ] = "local",
        settings: Settings = None,
        threads: Annotated[
            int, typer.Option(min=1, help="Of the processor at hand, as it was calibrated.")
        ] = 1,
        price: Annotated[
            float | None, typer.Option(min=0.0, help="USD an hour of one device.")
        ] = None,
        as_csv: Annotated[
            bool, typer.Option("--csv", help="Plain numbers in s, bytes, tokens/s for a program.")
        ] = False,
        db: Database = None,
        plugin_path: PluginPaths = None,
    ) -> None:
        """Predict times by phase, what binds, memory, the largest batch, cost and energy.

        A suite is read under the profile of the devices; --stack S --model M does without one, and
        --set workload.batch=1,8 or dtype=float16 changes either. What was calibrated here
        ('harness calibrate') is 'local'.
        """
        from harness import registry
        from harness.predict import suites
        from harness.suite.kernels import KernelWorkload

        registry.install(plugin_path or [])
        targets = _targets(hardware, db, price, threads)
        read = _suite(suite, stack or [], model, settings or [], _profile(targets))
        if isinstance(read.workload, KernelWorkload):
            _print_kernels(list(suites.kernels(read, targets)), as_csv)
        else:
            _print_blocks(list(suites.blocks(read, targets)), as_csv)


def _targets(names: str, db: str | None, price: float | None, threads: int) -> list[Target]:
    """The devices that --hardware names, in their order."""
    from harness.hardware import catalogue
    from harness.predict.target import by_datasheet

    given = [name.strip() for name in names.split(",") if name.strip()]
    if not given:
        raise UsageError("--hardware names no device; see 'harness list hardware'")
    found: list[Target] = []
    for name in given:
        if name == "local":
            found.append(_local(db, threads))
        else:
            found += [by_datasheet(*entry) for entry in catalogue.find([name]).items()]
    return found if price is None else [target.priced(price) for target in found]


def _local(db: str | None, threads: int) -> Target:
    """This machine: a GPU by its datasheet, a processor by its calibration in the database."""
    from harness.cli.sweep import known_hardware
    from harness.hardware import catalogue
    from harness.hardware.detection import detect
    from harness.predict.calibration import target
    from harness.predict.target import by_datasheet

    here = detect()
    if here.kind == "cpu":
        return target(known_hardware(here, db), threads)
    known = catalogue.matching(here)
    if known is None:
        raise UsageError(
            f"{here.name} is in no datasheet of the catalogue; give one in a file of its form, "
            "--hardware mine.yaml"
        )
    return by_datasheet(*known)


def _profile(targets: Sequence[Target]) -> Profile:
    """The profile that suits the devices. UsageError where they are of both kinds."""
    kinds = {target.row.profile for target in targets}
    if len(kinds) > 1:
        raise UsageError(
            "--hardware names a processor and GPUs, and a suite differs between them; predict for "
            "one kind at a time"
        )
    return kinds.pop()


def _suite(
    name: str | None, stacks: list[str], model: str | None, settings: list[str], profile: Profile
) -> Suite:
    """The suite, or one made of the stacks, with the profile laid over and settings applied."""
    import json

    from harness.suite import Suite, document, load, override, with_profile

    if (name is None) == (not stacks):
        raise UsageError("name a suite, or --stack and --model")
    if name is not None:
        read = load(name)
        if model is not None:
            settings = [f"model={json.dumps(model)}", *settings]
    else:
        if model is None:
            raise UsageError("--stack needs --model; 'harness list models' shows which there are")
        read = Suite.of(document.read(_DEFAULTS, "--stack"))
        settings = [f"stacks={json.dumps(stacks)}", f"model={json.dumps(model)}", *settings]
    return with_profile(override(read, settings), profile)


def _print_blocks(found: Sequence[Block], as_csv: bool) -> None:
    from harness.report import forecast

    if as_csv:
        _write_csv(forecast.NUMBERS, (row for block in found for row in forecast.numbers(block)))
        return
    rows = [row for block in found for row in forecast.rows(block)]
    print_table(Table(forecast.COLUMNS, rows))
    refused = dict.fromkeys(block.refused for block in found if block.refused)
    for reason in refused:
        typer.echo(f"not predicted: {reason}")
    _say_error([block.target for block in found])


def _print_kernels(found: Sequence[KernelPrediction], as_csv: bool) -> None:
    from harness.report import forecast

    if as_csv:
        _write_csv(forecast.KERNEL_NUMBERS, map(forecast.kernel_numbers, found))
        return
    print_table(Table(forecast.KERNEL_COLUMNS, [forecast.kernel_row(each) for each in found]))
    _say_error([each.target for each in found])


def _say_error(targets: Sequence[Target]) -> None:
    """How far the numbers may be off, by device."""
    from harness.predict.workload import Z95

    for target in {target.name: target for target in targets}.values():
        share = next(iter(target.rates.values())).efficiency
        factor = math.exp(Z95 * share.spread)
        typer.echo(
            f"{target.name}: times hold within a factor of {factor:.2f} in 95 % of cases; "
            f"constants from {share.source}"
        )


def _write_csv(header: Sequence[str], rows: Iterator[tuple[Any, ...]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
