"""`harness report`: a stored sweep as a table, as Markdown or as a page."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.listing import Database
from harness.errors import UsageError


class Format(StrEnum):
    """How a report is laid out."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    HTML = "html"


_BY_ENDING = {".md": Format.MARKDOWN, ".markdown": Format.MARKDOWN, ".html": Format.HTML}
_BY_ENDING |= {".htm": Format.HTML, ".txt": Format.TERMINAL}
# A file has no width of its own.
_FILE_COLUMNS = 120


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def report(
        sweep: Annotated[str, typer.Argument(help="A sweep's number, or 'last'.")] = "last",
        form: Annotated[
            Format | None,
            typer.Option("--format", help="By default what the output file's ending says."),
        ] = None,
        output: Annotated[Path | None, typer.Option(help="Write to this file.")] = None,
        baseline: Annotated[
            str | None, typer.Option(help="The stack that ratios are against.")
        ] = None,
        metric: Annotated[
            str | None, typer.Option(help="The metric that ratios are of, 'throughput'.")
        ] = None,
        db: Database = None,
    ) -> None:
        """Report a sweep: conditions, ratios with intervals, failures, slopes, plots."""
        chosen = form or (_BY_ENDING.get(output.suffix.lower()) if output else Format.TERMINAL)
        if chosen is None:
            raise UsageError(
                f"--output {output} does not say which format by its ending; "
                "name it .html, .md or .txt, or give --format"
            )
        text = _text(chosen, sweep, db, baseline, metric, to_file=output is not None)
        if output is None:
            typer.echo(text, nl=False)
            return
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write {output}: {error.strerror}") from error
        typer.echo(f"wrote {output}")


def _text(
    form: Format,
    sweep: str,
    db: str | None,
    baseline: str | None,
    metric: str | None,
    *,
    to_file: bool,
) -> str:
    """The report; empty where the terminal has printed it already."""
    from harness.analysis.results import results
    from harness.store import open_reader
    from harness.sweep.predicted import predictions

    with open_reader(db) as reader:
        row = reader.sweep(sweep)
        found = results(reader.runs(row.id))
        beside = {name: results(runs) for name, runs in predictions(reader, row)}
    if form is Format.HTML:
        from harness.report.page import html

        return html(row, found, baseline, metric, beside)
    if form is Format.MARKDOWN:
        from harness.report.markdown import markdown

        return markdown(row, found, baseline, metric, beside)

    from rich.console import Console

    from harness.report.terminal import print_sweep

    console = Console(width=_FILE_COLUMNS, no_color=True) if to_file else Console()
    with console.capture() as captured:
        print_sweep(console, row, found, baseline, metric, beside)
    return captured.get()
