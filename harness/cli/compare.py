"""`harness compare`: did this change break it? Two revisions, sweeps or databases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from harness.cli.listing import Database, PluginPaths
from harness.cli.suite import Settings
from harness.errors import UsageError, printable
from harness.exit_codes import interrupted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.analysis.judge import Rules
    from harness.analysis.verdict import Verdicts
    from harness.sweep import Order

# Options that `harness regress` shares.
Outputs = Annotated[
    list[Path] | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="Also write to a file that ends in .txt, .md, .xml (JUnit) or .json; repeatable.",
    ),
]
OnGitHub = Annotated[
    bool,
    typer.Option("--github", help="Print annotations, and add to the step's summary."),
]
Summary = Annotated[
    Path | None, typer.Option(envvar="GITHUB_STEP_SUMMARY", hidden=True, help="The summary's file.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def compare(
        base: Annotated[str, typer.Argument(help="A revision, a sweep's number or a database.")],
        head: Annotated[str, typer.Argument(help="The same, for the side in question.")],
        suite: Annotated[
            str | None, typer.Argument(help="With --run: the suite. Else: only its sweeps.")
        ] = None,
        run: Annotated[
            bool, typer.Option("--run", help="Check both revisions out and measure them in pairs.")
        ] = False,
        db: Database = None,
        metric: Annotated[
            list[str] | None, typer.Option(help="A metric to compare; may be repeated.")
        ] = None,
        margin: Annotated[str, typer.Option(help="Changes up to this are no change, '1%'.")] = "1%",
        output: Outputs = None,
        github: OnGitHub = False,
        summary: Summary = None,
        everything: Annotated[
            bool, typer.Option("--all", help="Show the rows too that are the same or unknown.")
        ] = False,
        settings: Settings = None,
        only: Annotated[
            list[str] | None,
            typer.Option(metavar="GLOB", help="With --run: cases to keep; may be repeated."),
        ] = None,
        profile: Annotated[
            Literal["cpu", "cuda"] | None, typer.Option(help="With --run: the device.")
        ] = None,
        rounds: Annotated[
            int | None,
            typer.Option(min=2, help="With --run: so many rounds, and no look before."),
        ] = None,
        budget: Annotated[
            str | None, typer.Option(metavar="10m", help="With --run: end after about this long.")
        ] = None,
        seed: Annotated[int | None, typer.Option(min=0, help="With --run: of the order.")] = None,
        plugin_path: PluginPaths = None,
        lock: Annotated[
            Path | None, typer.Option(envvar="HARNESS_LOCK", hidden=True, help="The lock's file.")
        ] = None,
    ) -> None:
        """Compare two sides case by case; verdicts: regressed, improved, same, unknown, invalid.

        Exit codes: 0 nothing alarms, 1 a regression or a case that broke, 2 bad input, 3 nothing
        was measured on both sides, 4 the store, git or the device fails, 128 + signal.
        """
        from harness.analysis.judge import Rules
        from harness.analysis.watched import watched
        from harness.report.verdicts import require_forms

        require_forms(output or [])
        watched(metric or [])
        rules = Rules(margin=share(margin, "--margin"))
        if run:
            from harness.analysis.paired_run import order_of

            order = order_of(suite, base, head, profile, settings, only, rounds, budget, seed,
                             plugin_path)  # fmt: skip
            run_and_show(
                order, base, head, db, rounds, metric or [], rules, lock,
                output or [], github, summary, everything,
            )  # fmt: skip
            return
        _refuse_options(settings, only, profile, rounds, budget, seed, plugin_path)
        told = _stored(base, head, db, suite, metric or [], rules)
        show(told, output or [], github, summary, everything)
        raise typer.Exit(told.exit_code)


def run_and_show(
    order: Order,
    base: str,
    head: str,
    db: str | None,
    rounds: int | None,
    metrics: list[str],
    rules: Rules,
    lock: Path | None,
    output: Sequence[Path],
    github: bool,
    summary: Path | None,
    everything: bool,
) -> None:
    """Measure two revisions in pairs, tell what came out, and end with the code that says so."""
    from rich.console import Console

    from harness.analysis.paired_run import measure
    from harness.sweep.progress import for_console

    progress = for_console(Console(stderr=True))
    outcome = measure(order, base, head, db, rounds, metrics, rules, lock, progress)
    told = _stored(str(outcome.base_id), str(outcome.head_id), db, None, metrics, rules)
    show(told, output, github, summary, everything)
    signum = outcome.signum
    raise typer.Exit(told.exit_code if signum is None else interrupted(signum))


def share(text: str, option: str) -> float:
    """A share as people write it: "1%" or "0.01"."""
    number = text.strip().removesuffix("%")
    try:
        found = float(number) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        found = -1.0
    if not 0 <= found < 1:
        raise UsageError(f"{option} {printable(text)}: write a share below one, '1%' or '0.01'")
    return found


def show(
    told: Verdicts, output: Sequence[Path], github: bool, summary: Path | None, everything: bool
) -> None:
    """Print verdicts, and put them wherever was asked for."""
    from rich.console import Console

    from harness.report.verdicts import add_summary, render, write
    from harness.report.verdicts.text import print_verdicts

    print_verdicts(Console(), told, everything=everything)
    for path in output:
        write(told, path)
        typer.echo(f"wrote {path}", err=True)
    if github:
        typer.echo(render(told, "annotations"), nl=False)
        if summary is not None:
            add_summary(told, summary)


def _refuse_options(*given: object) -> None:
    """Options of measuring say nothing about what is stored."""
    if any(option not in (None, []) for option in given):
        raise UsageError(
            "--set, --only, --profile, --rounds, --budget, --seed and --plugin-path are of "
            "--run: what is stored was measured already"
        )


def _stored(
    base: str, head: str, db: str | None, suite: str | None, metrics: list[str], rules: Rules
) -> Verdicts:
    from datetime import UTC, datetime

    from harness.analysis.sides import find
    from harness.hardware.revision import resolve
    from harness.report.verdicts.stored import verdicts_of

    theirs, ours = find(base, head, db, resolve, suite)
    return verdicts_of(theirs, ours, datetime.now(UTC), metrics, rules)
