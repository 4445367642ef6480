"""Verdicts as GitHub's workflow commands: `::error title=...::message`, shown on the run's page."""

from __future__ import annotations

from collections.abc import Iterable

from harness.analysis.verdict import Verdict, Verdicts
from harness.report.verdicts import table

# GitHub shows ten annotations of each level for a step and drops the others without a word.
SHOWN = 10


def render(told: Verdicts) -> str:
    """A line an annotation: errors for alarms, warnings for doubt, notices for improvements."""
    rows = table.ordered(told.rows)
    levels = {
        "error": [r for r in rows if r.alarm],
        "warning": [r for r in rows if not r.alarm and (r.nominated or r.verdict == "invalid")],
        "notice": [r for r in rows if r.verdict == "improved" and not r.alarm],
    }
    lines = [line for level, those in levels.items() for line in _lines(level, those)]
    if not told.measured:
        lines.append(_command("warning", f"harness {told.tool}", table.outcome(told)))
    return "".join(f"{line}\n" for line in lines)


def _lines(level: str, rows: list[Verdict]) -> Iterable[str]:
    fitting = rows if len(rows) <= SHOWN else rows[: SHOWN - 1]
    for row in fitting:
        yield _command(level, table.place(row), table.sentence(row))
    if len(rows) > len(fitting):
        rest = f"and {len(rows) - len(fitting)} more; the summary and the report list all"
        yield _command(level, "more of these", rest)


def _command(level: str, title: str, message: str) -> str:
    named = _escaped(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={named}::{_escaped(message)}"


def _escaped(text: str) -> str:
    """Text that stays one command on one line, whatever is in it."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
