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
    from harness.suite import Profile
    from harness.sweep import Order
    from harness.sweep.pair_session import PairOutcome

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

MOST_ROUNDS = 48  # of a session without --rounds: seven looks


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
        signum = None
        if run:
            order = _order(suite, base, head, profile, settings, only, rounds, budget, seed,
                           plugin_path)  # fmt: skip
            outcome = _measure(order, base, head, db, rounds, metric or [], rules, lock)
            told, signum = _of(outcome, db, metric or [], rules), outcome.signum
        else:
            _refuse_options(settings, only, profile, rounds, budget, seed, plugin_path)
            told = _stored(base, head, db, suite, metric or [], rules)
        show(told, output or [], github, summary, everything)
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


def _of(outcome: PairOutcome, db: str | None, metrics: list[str], rules: Rules) -> Verdicts:
    """The verdicts on what was just stored."""
    return _stored(str(outcome.base_id), str(outcome.head_id), db, None, metrics, rules)


def _order(
    suite: str | None,
    base: str,
    head: str,
    profile: Literal["cpu", "cuda"] | None,
    settings: list[str] | None,
    only: list[str] | None,
    rounds: int | None,
    budget: str | None,
    seed: int | None,
    plugin_paths: list[str] | None,
) -> Order:
    """The command line, read and checked."""
    from harness import registry
    from harness.hardware.detection import detect
    from harness.suite import cases, load, override
    from harness.sweep import Order
    from harness.sweep.budget import parse_duration
    from harness.sweep.session import SEED_BOUND

    if suite is None:
        raise UsageError("--run needs a suite: harness compare --run BASE HEAD SUITE")
    if seed is not None and seed >= SEED_BOUND:
        raise UsageError(f"--seed {seed} is too large; seeds go to {SEED_BOUND - 1}")
    kind: Profile = "cuda" if detect(profile).kind == "cuda" else "cpu"
    folders = [str(Path(path).expanduser().resolve()) for path in plugin_paths or []]
    registry.install(plugin_paths or [])
    read = override(load(suite), settings or [])
    argv = ["compare", "--run", base, head, suite, "--profile", kind]
    for name, values in (("--set", settings), ("--only", only), ("--plugin-path", folders)):
        for value in values or []:
            argv += [name, value]
    for name, given in (("--rounds", rounds), ("--budget", budget), ("--seed", seed)):
        if given is not None:
            argv += [name, str(given)]
    return Order(
        suite=read,
        profile=kind,
        cases=tuple(cases(read, kind, only or [])),
        argv=tuple(argv),
        seed=seed,
        budget_s=None if budget is None else parse_duration(budget),
        plugin_paths=tuple(folders),
    )


def _measure(
    order: Order,
    base: str,
    head: str,
    db: str | None,
    rounds: int | None,
    metrics: list[str],
    rules: Rules,
    lock: Path | None,
) -> PairOutcome:
    """Measure both sides in pairs, with more rounds while cases are unknown."""
    from collections.abc import Collection
    from datetime import UTC, datetime

    from rich.console import Console

    from harness.analysis.compare import compare, undecided
    from harness.analysis.looks import FIRST, schedule
    from harness.analysis.results import results
    from harness.analysis.rows import Session
    from harness.hardware.detection import detect
    from harness.paths import root
    from harness.store import StoredRun
    from harness.sweep.pair_session import Pairing, run_pairs
    from harness.sweep.progress import for_console

    def decide(theirs: Sequence[StoredRun], ours: Sequence[StoredRun]) -> Collection[str]:
        looked = Session(interleaved=True, first=FIRST)
        sides = results(theirs), results(ours)
        now = datetime.now(UTC)
        return undecided(
            compare(*sides, looked, title="", at=now, metrics=metrics, rules=rules, forecast=False)
        )

    bounds = iter([rounds]) if rounds is not None else schedule(FIRST)
    most = rounds if rounds is not None else MOST_ROUNDS
    pairing = Pairing(base, head, bounds, most, decide, root())
    progress = for_console(Console(stderr=True))
    hardware = detect(order.profile)
    return run_pairs(order, pairing, hardware, url=db, progress=progress, lock=lock)
