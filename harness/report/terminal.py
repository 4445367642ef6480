"""A sheet in a terminal, by rich. ASCII only, so that it survives a pipe, a log and a paste."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from harness.analysis.discovery import Q
from harness.analysis.judge import MARGIN
from harness.analysis.results import Result
from harness.report.findings import Grid
from harness.report.predicted import Predicted
from harness.report.sheet import Line, Sheet, sheet
from harness.store.rows import SweepRow

# Of a ratio's verdict; all others are dim.
COLOURS = {"improved": "green", "regressed": "red"}
_FORMULAS = "Formulas: harness list metrics."
_GAP = 2  # blanks between columns
_NARROW = 20  # below this a wrapped text is moved below its name
_KEPT = 3  # stack, value and ratio are never dropped for lack of room


def print_sweep(
    console: Console,
    sweep: SweepRow,
    results: Sequence[Result],
    baseline: str | None = None,
    metric: str | None = None,
    predicted: Predicted | None = None,
) -> None:
    """Print a sweep: conditions, table, failures, what was not measured, findings, notes.

    Raises UsageError for an unknown baseline or metric, and for a sweep without a run.
    """
    print_sheet(console, sheet(sweep, results, baseline, metric, predicted))


def print_sheet(console: Console, told: Sheet) -> None:
    """Print a sheet at the console's width."""
    console.print(Text(told.title, style="bold"))
    if told.about:
        console.print(Text(told.about))
    console.print()
    print_list(console, told.conditions, "dim")
    if told.blocks:
        console.print()
        _print_blocks(console, told)
        console.print()
        _print_wrapped(console, f"{legend(told)} {_FORMULAS}", "dim")
    for title, rows, style in (
        ("Failed", told.failures, "red"),
        ("Not measured", told.untried, "yellow"),
    ):
        if rows:
            console.print(Text(f"\n{title}", style="bold"))
            print_list(console, rows, style)
    for grid in told.slopes:
        console.print()
        print_grid(console, grid)
    for title, sentences in (("Findings", told.findings), ("Notes", told.notes)):
        if sentences:
            console.print(Text(f"\n{title}", style="bold"))
            print_list(console, [("-", sentence) for sentence in sentences], "")


def legend(told: Sheet) -> str:
    """How to read the table."""
    return (
        f"vs {told.baseline}: times better by {told.titles[0]}, so above 1 is better, with the "
        "95 % interval over pairs of processes of one round; +-: half-width of the 95 % interval. "
        f"A ratio is coloured where it is a discovery among all of the table (q = {Q:g}) and its "
        f"interval is further than {100 * MARGIN:g} % from 1."
    )


def _print_blocks(console: Console, told: Sheet) -> None:
    """The table, with as many columns as fit; a block's title spans them all."""
    header = ("stack", *told.titles)
    lines = [line for block in told.blocks for line in block.lines]
    rows = [("  " + line.stack, *_padded(line, told)) for line in lines]
    widths = _widths([header, *rows])
    shown = _fitting(widths, console.width, _KEPT)
    total = sum(widths[:shown]) + _GAP * (shown - 1)
    print_line(console, _row(header, widths[:shown]), "bold")
    print_line(console, Text("-" * total), "dim")
    for block in told.blocks:
        console.print(Text(block.title, style="bold"))
        for line in block.lines:
            print_line(console, _line(line, widths[:shown]))


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]


def _fitting(widths: Sequence[int], room: int, kept: int) -> int:
    """How many columns fit, at least the first `kept`."""
    shown = len(widths)
    while shown > kept and sum(widths[:shown]) + _GAP * (shown - 1) > room:
        shown -= 1
    return shown


def _padded(line: Line, told: Sheet) -> tuple[str, ...]:
    return line.cells or ("",) * len(told.titles)


def _row(cells: Sequence[str], widths: Sequence[int]) -> Text:
    """Cells in columns: the first to the left, the others to the right."""
    first = cells[0].ljust(widths[0])
    rest = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=False))
    return Text((" " * _GAP).join((first, *rest)))


def _line(line: Line, widths: Sequence[int]) -> Text:
    stack = "  " + line.stack
    if not line.cells:
        return Text.assemble(stack.ljust(widths[0] + _GAP), (f"{line.status}, see below", "red"))
    text = _row((stack, *line.cells), widths)
    if line.verdict is not None:
        start = widths[0] + _GAP + widths[1] + _GAP
        text.stylize(COLOURS.get(line.verdict, "dim"), start, start + widths[2])
    return text


def print_grid(console: Console, grid: Grid) -> None:
    """A small table under its title, with as many columns as fit."""
    widths = _widths([grid.header, *grid.rows])
    shown = _fitting(widths, console.width - _GAP, 2)
    _print_wrapped(console, grid.title, "bold")
    if grid.note:
        _print_wrapped(console, f"({grid.note})", "dim")
    for cells, style in ((grid.header, "dim"), *((row, "") for row in grid.rows)):
        text = Text(" " * _GAP).append_text(_row(cells, widths[:shown]))
        text.rstrip()
        print_line(console, text, style)


def print_list(console: Console, rows: Sequence[Sequence[str]], style: str) -> None:
    """Rows whose last text wraps under itself; the words before it stand in columns."""
    widths = _widths([row[:-1] for row in rows])
    indent = _GAP + sum(widths) + _GAP * len(widths)
    for row in rows:
        head = "".join(
            " " * _GAP + cell.ljust(width) for cell, width in zip(row, widths, strict=False)
        )
        # Where names leave no room for it, the text goes below them.
        narrow = console.width - indent < _NARROW
        left = 2 * _GAP if narrow else indent
        wrapped = textwrap.wrap(row[-1], max(console.width - left, _NARROW)) or [""]
        if narrow:
            print_line(console, Text(head.rstrip()), style)
            lines = [" " * left + line for line in wrapped]
        else:
            first = Text.assemble((head, style), " " * _GAP, wrapped[0])
            print_line(console, first)
            lines = [" " * left + line for line in wrapped[1:]]
        for line in lines:
            print_line(console, Text(line))


def _print_wrapped(console: Console, text: str, style: str) -> None:
    for line in textwrap.wrap(text, console.width):
        print_line(console, Text(line), style)


def print_line(console: Console, text: Text, style: str = "") -> None:
    """One line, whole whatever the width is: a number that is cut is another number."""
    console.print(text, style=style, no_wrap=True, overflow="ignore", crop=False)
