"""Verdicts as Markdown: for a pull request, a step summary, a file beside the code."""

from __future__ import annotations

from collections.abc import Iterable

from harness.analysis.verdict import Verdict, Verdicts
from harness.report.markdown import escape, grid, table
from harness.report.verdicts import table as told_as
from harness.report.verdicts.text import grids

# GitHub drops a step's summary whole above 1,024 KiB, and dropped one of exactly a megabyte.
SUMMARY_BYTES = 900 * 1024
# A comment on a pull request holds 64 KiB.
COMMENT_BYTES = 60 * 1024


def render(told: Verdicts) -> str:
    """The whole as Markdown: the answer first, what alarms, then the rest folded away."""
    rows, common = told_as.ordered(told.rows), told_as.shared(told)
    notable = told_as.notable(rows)
    shown = {id(row) for row in notable}
    rest = [row for row in rows if id(row) not in shown]
    parts = [f"# {escape(told.title)}", f"**{escape(told_as.outcome(told))}**"]
    parts.append(
        "\n".join(f"- **{name}**: {escape(value)}" for name, value in told_as.conditions(told))
    )
    if notable:
        parts += ["## Changed or invalid", _rows(notable, common)]
    for small in grids(told):
        parts += [f"## {escape(small.title)}", grid(small)]
    if told.notes:
        parts += ["## Notes", "\n".join(f"- {escape(note)}" for note in told.notes)]
    if told.refused:
        refused = [(r.title, r.reason) for r in told.refused]
        parts += ["## Not compared", table(("case", "reason"), refused, 2)]
    if rest:
        parts.append(_folded(f"The other {len(rest)} rows: same or unknown", _rows(rest, common)))
    return "\n\n".join(part for part in parts if part) + "\n"


def cut(markdown: str, limit: int = SUMMARY_BYTES, whole: str = "the full report") -> str:
    """The beginning of a document that fits, cut between two lines, saying what was left out.

    Args:
        markdown: tables, a row a line; paragraphs; sections folded by <details>.
        limit: bytes of UTF-8.
        whole: where all of it is, for the sentence.
    """
    if len(markdown.encode()) <= limit:
        return markdown
    lines = markdown.splitlines()
    kept: list[str] = []
    size, opened = 0, 0
    room = limit - len(_ending(1, len(lines), len(lines), whole).encode())
    for line in lines:
        size += len(line.encode()) + 1
        if size > room:
            break
        kept.append(line)
        opened += line.count("<details>") - line.count("</details>")
    left = lines[len(kept) :]
    rows = sum(line.startswith("|") for line in left)
    return "\n".join(kept) + _ending(opened, rows, len(left), whole)


def _ending(opened: int, rows: int, lines: int, whole: str) -> str:
    what = f"{rows:,} rows of tables" if rows else f"{lines:,} lines"
    return f"\n{'</details>' * opened}\n\n**Cut here: {what} are left out; see {whole}.**\n"


def _rows(rows: Iterable[Verdict], common: told_as.Shared) -> str:
    lines = [
        (
            *told_as.cells(row, common),
            "; ".join(p for p in (*told_as.changed(row), row.reason) if p),
        )
        for row in rows
    ]
    return table((*told_as.HEADER, "why"), lines, told_as.LEFT)


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{escape(title)}</summary>\n\n{content}\n\n</details>"
