"""What may be compared at all: sweeps of one device and environment, and results of one case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.analysis.ratios import LIKENESS, family
from harness.analysis.results import Result
from harness.analysis.verdict import Refusal
from harness.stacktext import label
from harness.store.rows import EnvironmentRow, SweepRow

_SHOWN = 3  # settings of an environment that a sentence names


def unlike_sweeps(base: SweepRow, head: SweepRow) -> str | None:
    """Why no ratio of these sweeps would mean anything, in words; None where they are alike."""
    if base.hardware.identity_hash != head.hardware.identity_hash:
        was, now = base.hardware, head.hardware
        differing = [
            f"{name} {getattr(was, name)} against {getattr(now, name)}"
            for name in ("kind", "name", "arch", "memory_bytes", "count", "cpu")
            if getattr(was, name) != getattr(now, name)
        ]
        return f"they ran on different hardware ({'; '.join(differing)})"
    if base.environment.hash != head.environment.hash:
        return f"they ran in different environments ({_differing(base, head)})"
    return None


def _differing(base: SweepRow, head: SweepRow) -> str:
    was, now = _flat(base.environment), _flat(head.environment)
    names = [n for n in dict.fromkeys([*was, *now]) if was.get(n) != now.get(n)]
    told = [f"{n} {_plain(was.get(n))} against {_plain(now.get(n))}" for n in names[:_SHOWN]]
    more = len(names) - _SHOWN
    return "; ".join(told) + (f"; and {more} more" if more > 0 else "")


def _flat(environment: EnvironmentRow) -> Mapping[str, Any]:
    plain = environment.model_dump(exclude={"clocks", "variables"})
    return {**plain, **environment.clocks, **environment.variables}


def matched(
    base: Iterable[Result], head: Iterable[Result]
) -> tuple[list[tuple[Result, Result]], list[Refusal]]:
    """The pairs (base, head) of equal cases in the head's order, and a refusal for all others.

    Predictions are left out: they are arithmetic on both sides.
    """
    theirs = {(r.source, r.case.hash): r for r in base if r.source != "predicted"}
    pairs, alone = [], []
    for ours in (r for r in head if r.source != "predicted"):
        key = (ours.source, ours.case.hash)
        other = theirs.get(key)
        if other is None or timers(other) != timers(ours):
            alone.append(ours)
        else:
            pairs.append((theirs.pop(key), ours))
    return pairs, refusals(list(theirs.values()), alone)


def refusals(base: Sequence[Result], head: Sequence[Result]) -> list[Refusal]:
    """A refusal for each result without a partner; two of one name say what sets them apart."""
    told = []
    rest = list(base)
    for ours in head:
        twin = next((theirs for theirs in rest if theirs.case.title == ours.case.title), None)
        if twin is None:
            told.append(Refusal(title=_named(ours), reason="only the head has it"))
            continue
        rest.remove(twin)
        told.append(Refusal(title=_named(ours), reason=apart(twin, ours)))
    return told + [Refusal(title=_named(theirs), reason="only the base has it") for theirs in rest]


def apart(base: Result, head: Result) -> str:
    """What sets two results of one name apart, base against head."""
    a, b = base.case, head.case
    differences = [
        f"{word} ({_plain(getattr(a, name))} against {_plain(getattr(b, name))})"
        for name, word in LIKENESS
        if getattr(a, name) != getattr(b, name)
    ]
    if base.source != head.source:
        differences.insert(0, f"source ({base.source} against {head.source})")
    if a.model != b.model:
        differences.insert(0, f"model ({family(a)} against {family(b)})")
    elif a.checkpoint_hash != b.checkpoint_hash:
        was, now = (_plain((c.checkpoint_hash or "random weights")[:12]) for c in (a, b))
        differences.insert(0, f"checkpoint ({was} against {now})")
    if timers(base) != timers(head):
        differences.append(f"timer ({timers(base)} against {timers(head)})")
    if not differences:
        differences = [f"stack ({label(a.composed)} against {label(b.composed)})"]
    return f"unlike: {', '.join(differences)}"


def timers(result: Result) -> str:
    """What took the times of a result, as its runs noted it."""
    noted = {str(told["timer"]) for told in result.telemetry if "timer" in told}
    return " and ".join(sorted(noted)) or "the harness's clock"


def _named(result: Result) -> str:
    case = result.case
    return f"{case.title} ({', '.join(w for w in (case.model, case.backend, case.dtype) if w)})"


def _plain(value: object) -> str:
    title = getattr(value, "title", None)
    return title if isinstance(title, str) else str(value)
