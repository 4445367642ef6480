"""One series, looked at, as verdicts: which of its changes are still open, and where it stands."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from harness.analysis.history.findings import LEVEL, Finding, Judged
from harness.analysis.history.series import History, Series
from harness.analysis.judge import MARGIN
from harness.analysis.verdict import Cause, Change, State, Subject, Verdict
from harness.suite.case import Case

# An improvement older than this is no news.
RECENT = 32
_NO_RATIO = "it was zero, so there is no ratio"
# A series whose nights could not show this much is called noisy.
NOISY = 0.05


def subject(series: Series, history: History) -> Subject:
    """What the verdict is about."""
    key = series.key
    case = history.cases.get(key.case_id)
    return Subject(
        case_hash=case.hash if case else f"case {key.case_id}",
        title=case.title if case else f"case {key.case_id}",
        conditions=_conditions(case) if case else "",
        hardware=history.devices.get(key.hardware_id, ""),
        metric=series.metric.name,
        unit=series.metric.unit,
        direction=series.metric.direction,
    )


def open_changes(findings: Sequence[Finding]) -> list[Finding]:
    """Changes for the worse that no later improvement took back, oldest first."""
    found: list[Finding] = []
    for finding in findings:
        if finding.kind == "noise":
            continue
        if finding.worse:
            found.append(finding)
            continue
        left = -finding.effect
        # The newest is taken back first: a fix follows what it fixes.
        while found and left >= found[-1].effect / 2:
            left -= found.pop().effect
    return found


def changed(
    finding: Finding,
    series: Series,
    history: History,
    cause: tuple[Cause, str],
    state: State,
    identity: str = "",
    extra: str = "",
) -> Verdict:
    """A change as a row: the levels before and after it, its revisions and its cause."""
    at, before = finding.at, max(finding.first - 1, 0)
    base, head = levels(series, finding)
    since, good = history.nights[series.places[at]], history.nights[series.places[before]]
    counted = finding.by == "count"
    nominated = state == "nominated" and finding.worse
    alarm = state == "confirmed" and finding.worse
    verdict = "regressed" if alarm or (counted and finding.worse) else "unknown"
    if not finding.worse:
        verdict = "improved"
    unscaled = _NO_RATIO if series.from_zero else ""
    reason = "; ".join(part for part in (extra, finding.note, cause[1], unscaled) if part)
    return Verdict.model_validate(
        {
            "subject": subject(series, history),
            "verdict": verdict if state != "acknowledged" else "unknown",
            "base": base,
            "head": head,
            "ratio": None if series.from_zero else math.exp(-finding.effect),
            "ci_low": None if series.from_zero else math.exp(-finding.high),
            "ci_high": None if series.from_zero else math.exp(-finding.low),
            "n": len(series.values) - at,
            "reason": reason,
            "nominated": nominated,
            "alarm": alarm,
            "change": Change(
                kind=finding.kind,
                state=state,
                cause=cause[0],
                id=identity,
                since=since.started_at,
                from_revision=good.commit,
                to_revision=since.commit,
                confidence=None
                if finding.confidence is None
                else min(max(finding.confidence, 0.0), 1.0),
            ),
        }
    )


def standing(series: Series, judged: Judged, history: History, start: int) -> Verdict:
    """A series without an open change: the same as it was accepted, or not known better."""
    about = subject(series, history)
    if judged.refused:
        value = float(series.values[-1]) if np.isfinite(series.values[-1]) else None
        return Verdict(subject=about, verdict="unknown", head=value, reason=judged.refused)
    values = series.values
    left, right = values[start : start + LEVEL], values[-min(LEVEL, len(values) - start) :]
    base, head = float(np.median(left)), float(np.median(right))
    if series.from_zero:
        word = "same" if base == head else "unknown"
        return Verdict(
            subject=about, verdict=word, base=base, head=head, n=len(right), reason=_NO_RATIO
        )
    sign = -1.0 if series.metric.direction == "higher" else 1.0
    effect = sign * math.log(head / base)
    half = 2.5 * (judged.sd or 0.0) * math.sqrt(1 / len(left) + 1 / len(right))
    same = len(values) - start >= LEVEL or series.exact
    within = abs(effect) + half <= math.log1p(MARGIN)
    shown = None if judged.smallest is None else math.expm1(min(judged.smallest, 10.0))
    reason = ""
    if shown is None:
        reason = f"{len(values)} nights are too few to know its noise"
    elif shown > NOISY:
        reason = f"noisy: a change below {shown:.0%} could not have been seen"
    return Verdict(
        subject=about,
        verdict="same" if same and within else "unknown",
        base=base,
        head=head,
        ratio=math.exp(-effect),
        ci_low=math.exp(-effect - half),
        ci_high=math.exp(-effect + half),
        n=len(right),
        smallest=shown if shown and shown > 0 else None,
        reason=reason,
    )


def levels(series: Series, finding: Finding) -> tuple[float, float]:
    """The levels before and after a change, in the metric's unit.

    They fit its effect, which was found on a series whose earlier changes were taken back.
    """
    head = float(np.median(series.values[finding.at :][:LEVEL]))
    if series.from_zero:
        return float(series.values[finding.at - 1]), head
    sign = -1.0 if series.metric.direction == "higher" else 1.0
    return head * math.exp(-sign * finding.effect), head


def _conditions(case: Case) -> str:
    threads = f"{case.threads} thread" + ("s" if case.threads > 1 else "")
    parts = (case.model, case.backend, case.dtype, threads)
    return ", ".join(part for part in parts if part)
