"""`harness sweep`: measure every case of a suite, store and show the results."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from harness.cli.listing import Database, PluginPaths, Table, print_table
from harness.cli.suite import Settings
from harness.errors import NothingMeasuredError, UsageError

if TYPE_CHECKING:
    from harness.hardware.ceilings import Ceilings
    from harness.hardware.identity import HardwareRow
    from harness.predict.target import Target
    from harness.suite import Suite
    from harness.suite.case import Case
    from harness.sweep import Order, Outcome

_INTERRUPTED = 130  # 128 + SIGINT, as shells report it


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def sweep(
        suite: Annotated[str, typer.Argument(metavar="SUITE", help="A suite file or its name.")],
        db: Database = None,
        settings: Settings = None,
        only: Annotated[
            list[str] | None,
            typer.Option(metavar="GLOB", help="Stacks or cases to keep, 'gqa*'; may be repeated."),
        ] = None,
        profile: Annotated[
            Literal["cpu", "cuda"] | None,
            typer.Option(help="The device; by default a GPU where there is one."),
        ] = None,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Print the cases and what they would take.")
        ] = False,
        resume: Annotated[
            bool, typer.Option("--resume", help="Continue the last unfinished sweep of the suite.")
        ] = False,
        budget: Annotated[
            str | None, typer.Option(metavar="10m", help="Stop after about this long.")
        ] = None,
        seed: Annotated[int | None, typer.Option(min=0, help="Of the order of runs.")] = None,
        plugin_path: PluginPaths = None,
        hardware: Annotated[
            str | None,
            typer.Option(metavar="NAMES", help="Catalogue names to predict for, beside measuring."),
        ] = None,
        output: Annotated[
            Path | None,
            typer.Option(metavar="FILE", help="Write it too as one JSON file, for 'db merge'."),
        ] = None,
        lock: Annotated[
            Path | None, typer.Option(envvar="HARNESS_LOCK", hidden=True, help="The lock's file.")
        ] = None,
    ) -> None:
        """Measure every case of a suite, refuse wrong results, store and show the rest.

        Exit codes: 0 good, 1 a case failed, 2 bad input, 3 nothing was measured, 4 the store or
        the device fails, 128 + signal when it was cut short (130 for Ctrl-C). What is finished
        when it ends is stored, whatever ended it.
        """
        from harness.hardware.detection import detect

        try:
            device = detect(profile)
            order = _order(
                suite,
                device,
                settings or [],
                only or [],
                resume,
                budget,
                seed,
                plugin_path or [],
                hardware,
            )
            if dry_run:
                _print_plan(order, device, db)
                return
            code = _measure(order, device, db, lock, output)
        except KeyboardInterrupt:
            typer.echo("harness: stopped before anything was measured", err=True)
            code = _INTERRUPTED
        raise typer.Exit(code)


def _named_devices(
    suite: Suite, device: HardwareRow, hardware: str | None
) -> tuple[tuple[Target, ...], Ceilings | None]:
    """What to predict for beside this machine, and this machine's own datasheet.

    Of the devices that the suite and --hardware name, one that is this machine is its datasheet.
    """
    from harness.hardware import catalogue
    from harness.predict.target import by_datasheet
    from harness.suite import with_profile

    listed = [name.strip() for name in (hardware or "").split(",") if name.strip()]
    names = dict.fromkeys([*with_profile(suite, device.profile).hardware, *listed])
    names.pop("local", None)
    found = catalogue.find(names)
    own = catalogue.matching(device, {**found, **catalogue.shipped()})
    others = [(name, entry) for name, entry in found.items() if entry.kind != "cpu"]
    targets = tuple(by_datasheet(name, entry) for name, entry in others)
    return targets, None if own is None else own[1].ceilings()


def _order(
    suite: str,
    device: HardwareRow,
    settings: list[str],
    only: list[str],
    resume: bool,
    budget: str | None,
    seed: int | None,
    plugin_paths: list[str],
    hardware: str | None,
) -> Order:
    """The command line, read and checked."""
    from harness import registry
    from harness.suite import cases, load, override
    from harness.sweep import Order
    from harness.sweep.budget import parse_duration
    from harness.sweep.session import SEED_BOUND

    if seed is not None and seed >= SEED_BOUND:
        raise UsageError(f"--seed {seed} is too large; seeds go to {SEED_BOUND - 1}")
    # Workers start in folders of their own, so paths must not depend on where this one is.
    folders = [str(Path(path).expanduser().resolve()) for path in plugin_paths]
    registry.install(plugin_paths)
    read = override(load(suite), settings)
    planned = cases(read, device.profile, only)
    targets, datasheet = _named_devices(read, device, hardware)
    argv = ["sweep", suite, "--profile", device.profile]
    for name, values in (("--set", settings), ("--only", only), ("--plugin-path", folders)):
        for value in values:
            argv += [name, value]
    for name, given in (("--budget", budget), ("--seed", seed), ("--hardware", hardware)):
        if given is not None:
            argv += [name, str(given)]
    return Order(
        suite=read,
        profile=device.profile,
        cases=tuple(planned),
        argv=(*argv, "--resume") if resume else tuple(argv),
        seed=seed,
        resume=resume,
        budget_s=None if budget is None else parse_duration(budget),
        plugin_paths=tuple(folders),
        predict_for=targets,
        datasheet=datasheet,
    )


def _measure(
    order: Order, device: HardwareRow, db: str | None, lock: Path | None, output: Path | None
) -> int:
    """Run the sweep and print what came out; the exit code."""
    from rich.console import Console

    from harness.analysis.results import results
    from harness.report.terminal import print_sweep
    from harness.store import document, open_reader
    from harness.store.faults import shown
    from harness.sweep import run_sweep
    from harness.sweep.predicted import predictions
    from harness.sweep.progress import for_console

    progress = for_console(Console(stderr=True))
    outcome = run_sweep(order, device, url=db, progress=progress, lock=lock)
    with open_reader(db) as reader:
        row, runs = reader.sweep(outcome.sweep_id), reader.runs(outcome.sweep_id)
        beside = {name: results(found) for name, found in predictions(reader, row)}
        where = shown(reader.url)
        if output is not None:
            document.write(document.of(reader, [row.id]), output)
    if runs:
        typer.echo()
        print_sweep(Console(), row, results(runs), predicted=beside)
    _print_end(outcome, where)
    if outcome.exit_code == NothingMeasuredError.exit_code:
        raise NothingMeasuredError(
            "nothing was measured: no case of the suite can run here, or none fits the budget"
        )
    return outcome.exit_code


def _print_end(outcome: Outcome, where: str) -> None:
    """What was left out and why, and where the rest is."""
    if outcome.left_out:
        typer.echo("\nLeft out for lack of time, expected not to fit the budget:")
        for case, runs in _counted(outcome.left_out):
            typer.echo(f"  {case.title}: {runs} {'run' if runs == 1 else 'runs'}")
    counts = ", ".join(f"{n} {status}" for status, n in sorted(outcome.statuses.items()))
    typer.echo(f"\nSweep {outcome.sweep_id} is in {where}: {counts or 'no run'}.")
    if not outcome.complete:
        why = "the budget is used up" if outcome.signum is None else "it was interrupted"
        typer.echo(f"It is not complete, {why}; the same command with --resume continues it.")


def _counted(cases: tuple[Case, ...]) -> list[tuple[Case, int]]:
    counts = Counter(case.hash for case in cases)
    first = {case.hash: case for case in reversed(cases)}
    return [(first[case_hash], runs) for case_hash, runs in counts.items()]


def _print_plan(order: Order, device: HardwareRow, db: str | None) -> None:
    """The cases, what each is expected to take, and the whole."""
    from harness.report import units
    from harness.suite import with_profile
    from harness.sweep.expect import expect
    from harness.sweep.progress import duration
    from harness.sweep.session import calibrated, known_ceilings

    def note(sentence: str) -> None:
        typer.echo(sentence, err=True)

    device = calibrated(known_hardware(device, db), order.cases, note, anew=False)
    measure = with_profile(order.suite, order.profile).measure
    ceilings = known_ceilings(device, order.cases)
    expected = expect(order.cases, measure, device.kind, ceilings)
    rows, whole_s = [], 0.0
    for entry in order.cases:
        case = entry.case
        found = expected.get(case.hash)
        seconds = None if found is None else found.seconds
        whole_s += (seconds or 0.0) * measure.rounds
        rows.append(
            (
                case.title,
                case.model,
                case.backend,
                case.dtype,
                str(case.threads),
                "-" if found is None else units.size(found.peak_bytes),
                "-" if seconds is None else duration(seconds),
                entry.unsupported or "",
            )
        )
    columns = ("case", "model", "backend", "dtype", "threads", "memory", "a run", "not supported")
    print_table(Table(columns, rows))
    runnable = sum(entry.runnable for entry in order.cases)
    typer.echo(
        f"\n{runnable} of {len(order.cases)} cases can run, in {measure.rounds} rounds: "
        f"{runnable * measure.rounds} runs, about {duration(whole_s)}. Estimates are crude."
    )


def known_hardware(device: HardwareRow, db: str | None) -> HardwareRow:
    """The device with its calibration from the database; without where there is no database yet.

    A database that cannot be read is an error: what it holds of the device would be lost.
    """
    from harness.store import open_reader
    from harness.store.schema import stored_revision
    from harness.sweep.session import with_known_calibration

    if stored_revision(db) is None:
        return device
    with open_reader(db) as reader:
        return with_known_calibration(device, reader.hardware(device.identity_hash))
