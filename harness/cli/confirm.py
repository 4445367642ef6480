"""`harness confirm`: measure again, in pairs, what a night made suspect."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.compare import OnGitHub, Outputs, Summary, run_and_show
from harness.cli.listing import Database, PluginPaths
from harness.errors import UsageError, printable_path

if TYPE_CHECKING:
    from harness.analysis.verdict import Verdicts


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def confirm(
        night: Annotated[Path, typer.Argument(help="JSON that 'harness regress' wrote.")],
        suite: Annotated[str, typer.Argument(help="The suite of the suspected cases.")],
        head: Annotated[str, typer.Option(help="The revision that the night measured.")] = "HEAD",
        rounds: Annotated[
            int, typer.Option(min=6, help="Pairs of processes a case; fewer bear out nothing.")
        ] = 16,
        budget: Annotated[
            str | None, typer.Option(metavar="10m", help="End after about this long.")
        ] = None,
        db: Database = None,
        output: Outputs = None,
        github: OnGitHub = False,
        summary: Summary = None,
        plugin_path: PluginPaths = None,
        lock: Annotated[
            Path | None, typer.Option(envvar="HARNESS_LOCK", hidden=True, help="The lock's file.")
        ] = None,
    ) -> None:
        """Compare the last good revision with the night's, for the suspected cases alone.

        `harness regress --confirm` takes the JSON that --output FILE.json writes. Ends with 0 and
        writes nothing where nothing is suspected.
        """
        from harness.analysis.judge import Rules
        from harness.analysis.paired_run import order_of
        from harness.report.verdicts import require_forms

        require_forms(output or [])
        found = suspects(_read(night))
        if not found:
            typer.echo(f"{printable_path(night)} suspects nothing")
            return
        base, titles = max(found.items(), key=lambda item: len(item[1]))
        if len(found) > 1:
            others = ", ".join(commit[:12] for commit in found if commit != base)
            typer.echo(f"against {base[:12]}, where most began; not against {others}", err=True)
        order = order_of(suite, base, head, only=titles, rounds=rounds, budget=budget,
                         plugin_paths=plugin_path)  # fmt: skip
        run_and_show(
            order, base, head, db, rounds, [], Rules(), lock, output or [], github, summary, False
        )


def suspects(night: Verdicts) -> dict[str, list[str]]:
    """Titles of nominated cases by the last commit known to be good."""
    found: dict[str, list[str]] = {}
    for row in night.rows:
        change = row.change
        if row.nominated and change is not None and change.from_revision:
            titles = found.setdefault(change.from_revision, [])
            if row.subject.title not in titles:
                titles.append(row.subject.title)
    return found


def _read(night: Path) -> Verdicts:
    from harness.report.verdicts import from_json

    try:
        content = night.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {printable_path(night)}: {error}") from error
    told = from_json(content, printable_path(night))
    if told.tool != "regress":
        raise UsageError(f"{printable_path(night)} is of harness {told.tool}, and not of regress")
    return told
