"""`harness regress`: what changed in the history of every series, and who must be told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.compare import OnGitHub, Outputs, Summary, show
from harness.cli.listing import Database
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.analysis.evaluate.trials import Half
    from harness.analysis.history.look import Options
    from harness.analysis.verdict import Verdicts


class Part(StrEnum):
    """Which series the benchmark of detectors is run on."""

    TUNING = "tuning"
    HELD = "held"
    BOTH = "both"


def register(app: typer.Typer) -> None:
    """Add the command and what belongs to it."""
    group = typer.Typer(
        help="Change detection on each series' history: steps, drift, cases that stopped.",
        invoke_without_command=True,
    )

    @group.callback()
    def regress(
        context: typer.Context,
        branch: Annotated[
            str | None, typer.Option(help="Nights of this branch; by default the newest's.")
        ] = None,
        output: Outputs = None,
        github: OnGitHub = False,
        summary: Summary = None,
        everything: Annotated[
            bool, typer.Option("--all", help="Show the rows too that are the same or unknown.")
        ] = False,
        method: Annotated[
            str, typer.Option(help="What finds steps: models (ours) or asv.")
        ] = "models",
        canary: Annotated[
            list[str] | None,
            typer.Option(help="Cases whose code is pinned, by title (a glob); repeatable."),
        ] = None,
        confirm: Annotated[
            Path | None,
            typer.Option(help="JSON of a 'harness compare --run' of the suspected cases."),
        ] = None,
        stale_days: Annotated[
            float, typer.Option(min=0.1, help="A last sweep older than this alarms.")
        ] = 3.0,
        dry_run: Annotated[bool, typer.Option(help="Store no alert.")] = False,
        evaluate: Annotated[
            bool, typer.Option(help="Benchmark the detector itself beside others.")
        ] = False,
        half: Annotated[
            Part, typer.Option(help="With --evaluate: which series, by their names' hash.")
        ] = Part.HELD,
        peers: Annotated[
            bool, typer.Option(help="With --evaluate: run other tools' detectors too.")
        ] = True,
        otava_python: Annotated[
            Path | None,
            typer.Option(help="With --evaluate: Python of an environment that has Otava."),
        ] = None,
        data: Annotated[
            Path | None,
            typer.Option(help="With --evaluate: a folder with annotated series to replay."),
        ] = None,
        every: Annotated[
            int, typer.Option(min=1, help="With --evaluate: only every so-many-th series.")
        ] = 1,
        db: Database = None,
    ) -> None:
        """Judge the newest night against the history; 1 is a regression, 3 nothing measured."""
        if context.invoked_subcommand is not None:
            return
        if evaluate:
            _evaluate(half.value, peers, otava_python, data, every)
            return
        from harness.analysis.history.look import Options
        from harness.analysis.history.methods import method as find_method
        from harness.report.verdicts import require_forms

        require_forms(output or [])

        options = Options(
            method=find_method(method),
            canaries=tuple(canary or ()),
            stale_after=timedelta(days=stale_days),
        )
        found = _look(db, branch, options, confirm, dry_run)
        show(found, output or [], github, summary, everything)
        raise typer.Exit(found.exit_code)

    @group.command()
    def ack(
        numbers: Annotated[list[int], typer.Argument(help="Numbers of alerts.", metavar="ID...")],
        reason: Annotated[str, typer.Option(help="Why it is known and stays.")],
        db: Database = None,
    ) -> None:
        """Acknowledge alerts: they alarm no more, and their new level is the accepted one."""
        from harness.store import open_store
        from harness.store.alerts import acknowledge

        with open_store(db, create=False) as store:
            for row in acknowledge(store, numbers, reason):
                typer.echo(f"acknowledged {row.id}: {row.kind} of {row.metric}, {row.reason}")

    @group.command()
    def accept(
        only: Annotated[str, typer.Argument(help="Titles of cases, as a glob.", metavar="GLOB")],
        reason: Annotated[str, typer.Option(help="Why this level is right.")],
        metric: Annotated[str | None, typer.Option(help="Only this metric.")] = None,
        db: Database = None,
    ) -> None:
        """Accept the newest night's level of cases: what was before is history."""
        from harness.analysis.history.accepting import newest_levels
        from harness.analysis.history.branch import read
        from harness.store import alerts as stored
        from harness.store import open_reader, open_store

        with open_reader(db) as reader:
            levels = newest_levels(read(reader), only, metric, reason, datetime.now(UTC))
        with open_store(db, create=False) as store:
            stored.accept(store, levels)
        typer.echo(f"accepted the level of {len(levels)} series")

    @group.command()
    def log(db: Database = None) -> None:
        """List every change ever found, and what became of it."""
        from harness.analysis.history.accepting import log_lines
        from harness.store import open_reader
        from harness.store.alerts import alerts

        with open_reader(db) as reader:
            for line in log_lines(reader, alerts(reader)):
                typer.echo(line)

    app.add_typer(group, name="regress")


def _look(
    db: str | None, branch: str | None, options: Options, confirm: Path | None, dry_run: bool
) -> Verdicts:
    """The verdicts of tonight, with what a session bore out, stored unless it is a dry run."""
    from dataclasses import replace

    from harness.analysis.history.branch import read
    from harness.analysis.history.confirmation import bear_out, outcome
    from harness.analysis.history.look import look, with_ids
    from harness.store import alerts as stored
    from harness.store import open_reader, open_store

    with open_reader(db) as reader:
        history = read(reader, branch)
        known, levels = stored.alerts(reader), stored.levels(reader)
    seen = look(history, known, levels, datetime.now(UTC), options)
    if confirm is not None:
        verdicts = seen.verdicts
        rows = tuple(bear_out(verdicts.rows, _session(confirm)))
        after = [
            outcome(alert, rows[place])
            for alert, place in zip(seen.alerts, seen.places, strict=True)
        ]
        verdicts = verdicts.model_copy(update={"rows": rows})
        seen = replace(seen, verdicts=verdicts, alerts=tuple(after))
    if dry_run or not seen.alerts:
        return seen.verdicts
    with open_store(db, create=False) as store:
        return with_ids(seen, stored.save(store, seen.alerts))


def _session(path: Path) -> Verdicts:
    from harness.report.verdicts import from_json

    try:
        return from_json(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error


def _evaluate(
    half: Half, peers: bool, otava_python: Path | None, data: Path | None, every: int
) -> None:
    from harness.analysis.evaluate import run, table

    collection, made = "", []
    for row in run.rows(half, peers, otava_python, every=every):
        if row.collection != collection:
            collection = row.collection
            typer.echo(f"\n{collection}, {half} half, every {every}" if every > 1 else
                       f"\n{collection}, {half} half")  # fmt: skip
            typer.echo(table.heading())
        typer.echo(table.line(row))
        made.append(row)
    for name in ("grid", "rocksdb"):
        typer.echo("\n" + "\n".join(table.power([row for row in made if row.collection == name])))
    typer.echo("\n" + "\n".join(table.night_errors(run.night_errors(half, every=every))))
    if data is not None:
        typer.echo(f"\nannotated series of {data}: F1 against people's marks")
        for title, f1 in run.turing(data):
            typer.echo(f"{title:30}{f1:>9.2f}")
    typer.echo(f"\n{table.blind_spot(made)}")
