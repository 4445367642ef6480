"""Verdicts in a terminal, by rich. ASCII only, so that they survive a pipe, a log and a paste."""

from __future__ import annotations

import io

from rich.console import Console
from rich.text import Text

from harness.analysis.verdict import Verdicts
from harness.report.findings import Grid
from harness.report.terminal import COLOURS, print_grid, print_line, print_list
from harness.report.verdicts import table

_FEW = 40  # rows that are all shown; of more only what a reader looks for
_COLUMNS = 120  # of a file, which has no width of its own


def print_verdicts(console: Console, told: Verdicts, *, everything: bool = False) -> None:
    """Print conditions, rows, refusals, means, rounds and notes; the answer stands last."""
    console.print(Text(told.title, style="bold"))
    console.print()
    print_list(console, table.conditions(told), "dim")
    common = table.shared(told)
    rows = table.ordered(told.rows)
    shown = rows if everything or len(rows) <= _FEW else table.notable(rows)
    if shown:
        console.print()
        _print_rows(console, [table.cells(row, common) for row in shown])
    if len(shown) < len(rows):
        hidden = len(rows) - len(shown)
        console.print(Text(f"\n{hidden} rows that are the same or unknown are left out; --all"))
    reasons = [(table.place(r, common), r.subject.metric, r.reason) for r in shown if r.reason]
    refused = [(r.title, r.reason) for r in told.refused]
    for title, listed in (("Why", reasons), ("Not compared", refused)):
        if listed:
            console.print(Text(f"\n{title}", style="bold"))
            print_list(console, listed, "")
    for grid in grids(told):
        console.print()
        print_grid(console, grid)
    if told.notes:
        console.print(Text("\nNotes", style="bold"))
        print_list(console, [("-", note) for note in told.notes], "")
    console.print(Text(f"\n{table.outcome(told)}", style="red" if told.alarms else ""))


def plain(told: Verdicts) -> str:
    """The whole as text for a file."""
    out = io.StringIO()
    print_verdicts(Console(file=out, width=_COLUMNS, no_color=True), told, everything=True)
    return out.getvalue()


def grids(told: Verdicts) -> list[Grid]:
    """Means and rounds as small tables."""
    found = []
    if told.summaries:
        rows = tuple(table.summary(row) for row in told.summaries)
        note = "means of ratios only; absolute values stand with the cases"
        found.append(Grid(table.SUMMARY_TITLE, table.SUMMARY_HEADER, rows, note))
    if told.needs:
        header, lines = table.needs(told.needs)
        found.append(Grid(table.NEEDS_TITLE, header, tuple(lines), table.NEEDS_NOTE))
    return found


def _print_rows(console: Console, rows: list[tuple[str, ...]]) -> None:
    """The table; a line that is too wide is not cut: a number that is cut is another number."""
    lines = [table.HEADER, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.HEADER))]
    for number, line in enumerate(lines):
        parts = [
            cell.ljust(width) if i < table.LEFT or i == len(line) - 1 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        text = Text("  ".join(parts[:-1]) + "  ", style="" if number else "bold")
        print_line(console, text.append(parts[-1].rstrip(), style=COLOURS.get(line[-1], "")))
        if not number:
            print_line(console, Text("-" * (sum(widths) + 2 * (len(widths) - 1))), "dim")
