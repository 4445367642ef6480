"""From a suspicion to an alarm: what a fresh interleaved session says about the nominated cases.

History cannot tell a change of the code from a change of the machine. So both revisions are built
and run again, in pairs, in one session (`harness compare --run`), where the machine is the same for
both; the night that raised the suspicion counts for nothing there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.analysis.history.series import History
from harness.analysis.verdict import Change, Verdict, Verdicts
from harness.errors import UsageError
from harness.store.alerts import AlertRow

# Pairs of processes that a session takes of every nominated case: with 1 % between processes a
# change of 3 % is then borne out 99 times in 100.
PAIRS = 16
# Fewer pairs than this bear out nothing.
LEAST_PAIRS = 6
# The suite of benchmarks that were measured by another tool: no sweep can measure them again.
IMPORTED = "pytest-benchmark"


def bear_out(nominated: Sequence[Verdict], session: Verdicts) -> list[Verdict]:
    """The nominated rows after a session: confirmed ones alarm, the others are unconfirmed.

    Rows that the session has no ratio for, or too few pairs, stay nominated and say so.

    Raises:
        UsageError: the session was no comparison.
    """
    if session.tool != "compare":
        raise UsageError("a suspicion is borne out by 'harness compare --run', not by a history")
    measured = {(r.subject.case_hash, r.subject.metric): r for r in session.rows}
    return [
        _after(row, measured.get((row.subject.case_hash, row.subject.metric))) for row in nominated
    ]


def _after(row: Verdict, seen: Verdict | None) -> Verdict:
    change = row.change
    if change is None or change.state != "nominated":
        return row
    if seen is None or seen.ratio is None:
        why = "the session did not measure it" if seen is None else seen.reason
        return row.model_copy(update={"reason": _joined(row.reason, why)})
    if seen.n < LEAST_PAIRS or seen.nominated:
        why = f"{seen.n} interleaved pairs are too few to bear it out; {LEAST_PAIRS} are needed"
        return row.model_copy(update={"reason": _joined(row.reason, why)})
    if seen.verdict == "regressed":
        return _confirmed(row, change, seen)
    # What moved on the nights did not move with the code.
    cause = "environment" if change.cause in ("code", "environment", "unknown") else change.cause
    why = f"{seen.n} interleaved pairs of both revisions: {_percent(seen)}, {seen.verdict}"
    return row.model_copy(
        update={
            "nominated": False,
            "change": change.model_copy(update={"state": "unconfirmed", "cause": cause}),
            "reason": _joined(row.reason, why),
        }
    )


def _confirmed(row: Verdict, change: Change, seen: Verdict) -> Verdict:
    why = f"{seen.n} interleaved pairs of both revisions: {_percent(seen)}"
    return row.model_copy(
        update={
            "verdict": "regressed",
            "nominated": False,
            "alarm": True,
            "change": change.model_copy(update={"state": "confirmed", "cause": "code"}),
            "reason": _joined(row.reason, why),
        }
    )


def _percent(seen: Verdict) -> str:
    assert seen.ratio is not None
    bounds = ""
    if seen.ci_low is not None and seen.ci_high is not None:
        bounds = f" [{seen.ci_low:.3f}, {seen.ci_high:.3f}]"
    return f"{seen.ratio:.3f} times as good{bounds}"


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def outcome(alert: AlertRow, row: Verdict) -> AlertRow:
    """The alert as its row is after a session."""
    change = row.change
    if change is None or change.state == alert.state:
        return alert
    return replace(alert, state=change.state, cause=change.cause, reason=row.reason)


def sessions(told: Sequence[Verdict], history: History) -> tuple[str, ...]:
    """For each suite, the commands that bear suspicions out, or do not."""
    suites = {
        history.cases[series.key.case_id].hash: history.nights[series.places[-1]]
        for series in history.series
        if series.key.case_id in history.cases
    }
    asked: dict[tuple[str, str, str], list[str]] = {}
    for row in told:
        night = suites.get(row.subject.case_hash)
        if night is None or night.commit is None or night.suite == IMPORTED:
            continue
        if row.nominated and row.change and row.change.from_revision:
            key = (night.suite, row.change.from_revision, night.commit)
            titles = asked.setdefault(key, [])
            if row.subject.title not in titles:
                titles.append(row.subject.title)
    notes = []
    for (suite, base, head), titles in asked.items():
        only = " ".join(f"--only '{title}'" for title in titles)
        notes.append(
            f"to bear out {len(titles)} of them: harness compare --run {base[:12]} {head[:12]} "
            f"{suite} --rounds {PAIRS} {only} --output session.json; "
            "then: harness regress --confirm session.json"
        )
    return tuple(notes)
