"""The rows of a comparison: one metric of one case, before it is judged and after."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from harness.analysis.judge import Rules, Ruling
from harness.analysis.looks import Row
from harness.analysis.ratios import ratio, repeats
from harness.analysis.results import Result
from harness.analysis.verdict import Subject, Verdict, VerdictName
from harness.metrics import METRICS

_WIDE = 20.0  # twenty times: whoever is told so has learnt nothing
# A head that ends like this while the base is good has lost something.
_LOST = ("gate_failed", "crashed", "error", "timeout", "oom", "oom_predicted", "unsupported")

NOT_INTERLEAVED = (
    "the two sides were not interleaved in one session, and a session effect cannot be told from a "
    "change; 'harness compare --run' measures them so"
)


@dataclass(frozen=True)
class Session:
    """How the two sides were measured.

    `interleaved` says that the runs of each pair stood side by side in one job; `first` is the
    number of rounds before the first look where rounds were added until something showed, None
    where their number was fixed.
    """

    interleaved: bool
    first: int | None = None


@dataclass(frozen=True)
class Pending:
    """A row that waits for the rest of its family."""

    subject: Subject
    row: Row
    base: float
    head: float
    reason: str = ""


def subject_of(result: Result, metric: str, hardware: str) -> Subject:
    """What a row of this result is about; `metric` may be "status", which is none."""
    case = result.case
    words = [case.model, case.backend, case.dtype]
    words.append(f"{case.threads} thread{'s' if case.threads > 1 else ''}")
    words += ["CUDA graph"] if case.cuda_graph else []
    words += [result.source] if result.source != "measured" else []
    known = METRICS.get(metric)
    return Subject(
        case_hash=case.hash,
        title=case.title,
        conditions=", ".join(word for word in words if word),
        hardware=hardware,
        metric=metric,
        unit=known.unit if known else "",
        direction=known.direction if known else "neither",
    )


def lost(base: Result, head: Result, hardware: str) -> Verdict:
    """The one row of a case that is not good on both sides."""
    sides = (("the base", base), ("the head", head))
    why = [f"{name} is {r.status}: {r.reason}" for name, r in sides if r.status != "ok"]
    return Verdict(
        subject=subject_of(head, "status", hardware),
        verdict="invalid",
        reason="; ".join(why),
        alarm=base.status == "ok" and head.status in _LOST,
    )


def compared(
    base: Result, head: Result, metric: str, hardware: str, session: Session, rules: Rules
) -> Pending | Verdict | None:
    """One metric of one case: pairs to judge, a row that needs no judging, or nothing to say."""
    was, now = base.value(metric), head.value(metric)
    if was is None and now is None:
        return None
    subject = subject_of(head, metric, hardware)
    found = ratio(head, base, metric)
    if found.value is not None:
        assert found.ours is not None
        assert found.theirs is not None
        row = Row(metric, found.logs, found.rounds, found.exact)
        return Pending(subject, row, found.theirs, found.ours, _changed(base, head))
    if was is not None and now is not None:
        before, after = ([v for _, v in side.metrics[metric].by_round] for side in (base, head))
        if min(*before, *after) <= 0:
            exact = repeats(base, metric) and repeats(head, metric)
            found_by = _Signs(before, after, exact, session.interleaved)
            return _by_signs(subject, found_by, rules)
    return Verdict(
        subject=subject,
        verdict="invalid",
        base=was,
        head=now,
        reason=str(found.reason),
        alarm=was is not None and now is None,
    )


@dataclass(frozen=True)
class _Signs:
    """Values that have no logarithms, as some are zero or below."""

    before: list[float]
    after: list[float]
    exact: bool
    interleaved: bool


def _by_signs(subject: Subject, seen: _Signs, rules: Rules) -> Verdict:
    """A row without a ratio: n pairs that all moved one way do so by chance once in 2**n."""
    before, after = seen.before, seen.after
    n = min(len(before), len(after))
    looks: VerdictName = "unknown"
    if set(before) == set(after) and len(set(before)) == 1:
        looks = "same"
    elif max(before) < min(after) or max(after) < min(before):
        worse = (max(before) < min(after)) == (subject.direction == "lower")
        looks = "regressed" if worse else "improved"
    sure = seen.exact or (seen.interleaved and (looks == "same" or 0.5**n <= rules.q))
    nominated = not sure and looks in ("regressed", "improved")
    why = ["not every value is positive, so there is no ratio"]
    if nominated:
        why.append(f"looks {looks}")
        why.append(f"{n} pairs are too few to say so" if seen.interleaved else NOT_INTERLEAVED)
    verdict = looks if sure else "unknown"
    return Verdict(
        subject=subject,
        verdict=verdict,
        base=median(before),
        head=median(after),
        n=n,
        reason="; ".join(why),
        nominated=nominated,
        alarm=verdict == "regressed",
    )


def _changed(base: Result, head: Result) -> str:
    """Operations that another implementation serves now: a silent fallback is told."""
    was, now = dict(base.implementations), dict(head.implementations)
    moved = [
        f"{op} was {was[op]} and is {now[op]}" for op in was if now.get(op, was[op]) != was[op]
    ]
    return "; ".join(moved)


def ruled(pending: Pending, ruling: Ruling, session: Session) -> Verdict:
    """A ruling as a row, with no more said than the way of measuring allows."""
    verdict, why = ruling.verdict, [pending.reason] if pending.reason else []
    nominated = False
    if not session.interleaved and not pending.row.exact and verdict != "unknown":
        nominated = verdict in ("regressed", "improved")
        seen = f"looks {verdict}" if nominated else "looks the same"
        verdict = "unknown"
        why.append(f"{seen}, but {NOT_INTERLEAVED}")
    elif verdict == "unknown":
        why.append(_unseen(ruling))
    return Verdict(
        subject=pending.subject,
        verdict=verdict,
        base=pending.base,
        head=pending.head,
        ratio=ruling.ratio,
        ci_low=ruling.low,
        ci_high=ruling.high,
        n=ruling.n,
        p=ruling.p,
        smallest=ruling.smallest,
        reason="; ".join(why),
        nominated=nominated,
        alarm=verdict == "regressed",
    )


def _unseen(ruling: Ruling) -> str:
    if ruling.low is None:
        return "one pair; an interval needs two rounds or more"
    if ruling.smallest is None or ruling.smallest > _WIDE:
        return f"{ruling.n} pairs scatter too widely to show a change of any size that matters"
    size = f"{100 * ruling.smallest:.2g} %"
    if ruling.smallest >= 1:
        size = f"{1 + ruling.smallest:.2g} times"
    return f"{ruling.n} pairs with this noise show changes of {size} and more"
