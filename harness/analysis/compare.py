"""Did this change break it? Two sides of results to verdicts, case by case and metric by metric.

Pure: results in, `Verdicts` out. Only equal cases meet, found by their hash; what has no partner,
or differs in what decides a number, is refused by name and never averaged. A mean is taken of
ratios alone, and only over cases that both sides have.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from harness.analysis.alike import matched
from harness.analysis.judge import Rules
from harness.analysis.looks import judge_looks, judge_once
from harness.analysis.results import NOT_TRIED, Result
from harness.analysis.rows import NOT_INTERLEAVED, Pending, Session, compared, lost, ruled
from harness.analysis.summaries import needs, summaries
from harness.analysis.verdict import Verdict, Verdicts
from harness.analysis.watched import watched
from harness.metrics import METRICS


def compare(
    base: Sequence[Result],
    head: Sequence[Result],
    session: Session,
    *,
    title: str,
    at: datetime,
    metrics: Sequence[str] = (),
    rules: Rules | None = None,
    hardware: str = "",
    conditions: Sequence[tuple[str, str]] = (),
    forecast: bool = True,
) -> Verdicts:
    """Compare two sides.

    Args:
        base: results of the side that is known.
        head: results of the side in question.
        session: how they were measured.
        title: names both sides.
        at: when they were compared.
        metrics: what to compare, see `watched`.
        rules: what counts as a change.
        hardware: the device's name.
        conditions: name and value of what both sides share.
        forecast: also how many rounds changes of several sizes need.
    """
    rules = rules or Rules()
    pairs, refused = matched(base, head)
    rows: list[Verdict] = []
    judged: list[Pending] = []
    for theirs, ours in pairs:
        if theirs.status != "ok" or ours.status != "ok":
            if {theirs.status, ours.status} - set(NOT_TRIED):
                rows.append(lost(theirs, ours, hardware))
            continue
        for name in watched(metrics):
            found = compared(theirs, ours, name, hardware, session, rules)
            if isinstance(found, Verdict):
                rows.append(found)
            elif found is not None:
                judged.append(found)
    evidence = [pending.row for pending in judged]
    first = session.first
    rulings = judge_once(evidence, rules) if first is None else judge_looks(evidence, first, rules)
    family = sum(ruling.sd is not None for ruling in rulings)
    for pending, ruling in zip(judged, rulings, strict=True):
        rows.append(ruled(pending, ruling, session))
    order = {ours.case.hash: i for i, (_, ours) in enumerate(pairs)}
    places = {name: i for i, name in enumerate(METRICS)}
    rows.sort(key=lambda row: (order[row.subject.case_hash], places.get(row.subject.metric, -1)))
    seen = [(pending.row.metric, ruling) for pending, ruling in zip(judged, rulings, strict=True)]
    return Verdicts(
        tool="compare",
        title=title,
        at=at,
        conditions=tuple(conditions),
        rows=tuple(rows),
        refused=tuple(refused),
        summaries=summaries(rows, len(pairs) + len(refused)),
        needs=needs(seen, max(family, 1), rules) if forecast else (),
        notes=_notes(rows, session, rules),
    )


def _notes(rows: Sequence[Verdict], session: Session, rules: Rules) -> tuple[str, ...]:
    told = [
        f"A row has changed where the change is a discovery among all rows (Benjamini-Hochberg, "
        f"q = {rules.q:g}) and its interval lies beyond {100 * rules.margin:g} %; it is the same "
        f"where the interval lies within that."
    ]
    if not session.interleaved:
        told.append(
            f"Nothing but counts is more than nominated here: {NOT_INTERLEAVED}. Counted bytes and "
            "tokens do not depend on a session."
        )
    if session.first is not None and any(row.n > session.first for row in rows):
        told.append(
            "Rounds were added while cases were unknown; every look spent a share of the error, so "
            "intervals are at least 95 % however often was looked."
        )
    return tuple(told)


def undecided(verdicts: Verdicts) -> set[str]:
    """Hashes of the cases that more rounds could decide."""
    return {
        row.subject.case_hash
        for row in verdicts.rows
        if row.verdict == "unknown" and row.ratio is not None
    }
