"""How many times better a result is than another at the same point, with an interval.

Pairs are formed by round: both sides of a round ran close in time, so that a drift of the machine
cancels. What a ratio says is not decided here: `harness.analysis.judge` looks at all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.analysis.intervals import geometric_mean
from harness.analysis.results import Result
from harness.metrics import Metric
from harness.metrics import metric as find_metric
from harness.suite.case import Case
from harness.suite.points import GeneratePoint

# What two rows must share before one may be divided by the other, and how a sentence calls it.
LIKENESS = (
    ("workload", "workload point"),
    ("backend", "backend"),
    ("dtype", "dtype"),
    ("threads", "number of threads"),
    ("cuda_graph", "use of CUDA graphs"),
    ("cache_state", "cache state"),
    ("definition_version", "definition of the metrics"),
)


@dataclass(frozen=True)
class Ratio:
    """Times better than the baseline: above 1 is better whichever way the metric points.

    For a metric that is neither better high nor low it is the plain quotient. `value` is None
    exactly when `reason` says why; the bounds may be None beside a value, and then
    `interval_reason` says why. `logs` are the logarithms of the pairs' ratios, in the order of
    their `rounds`; `ours` and `theirs` are each side's geometric mean over the same processes;
    `exact` says that the metric is counted and repeats to the digit on both sides.
    """

    value: float | None
    ci_low: float | None
    ci_high: float | None
    n_pairs: int
    reason: str | None = None
    interval_reason: str | None = None
    logs: tuple[float, ...] = ()
    rounds: tuple[int, ...] = ()
    ours: float | None = None
    theirs: float | None = None
    exact: bool = False


@dataclass(frozen=True)
class Point:
    """Where in the grid a case stands: everything that decides the number except its stack."""

    model: str  # family
    workload: GeneratePoint
    backend: str
    dtype: str
    threads: int
    cuda_graph: bool
    cache_state: str
    definition_version: int
    source: str


def point(result: Result) -> Point:
    """The point of a result that generates; results of equal points may be compared."""
    case = result.case
    return Point(
        model=family(case),
        workload=case.generated,
        backend=case.backend,
        dtype=case.dtype,
        threads=case.threads,
        cuda_graph=case.cuda_graph,
        cache_state=case.cache_state,
        definition_version=case.definition_version,
        source=result.source,
    )


def family(case: Case) -> str:
    """The model without the ending that names the stack's own architecture.

    Stacks of one sweep run different members of a family, zoo/small-mha and zoo/small-gqa; that is
    the comparison, not an obstacle to it.
    """
    if case.model.startswith("zoo/") and case.stack is not None:
        for name in case.stack.member_names:
            if case.model.endswith(f"-{name}"):
                return case.model.removesuffix(f"-{name}")
    return case.model


def unlike(result: Result, baseline: Result) -> str | None:
    """One sentence on why the two may not be divided, or None where they may."""
    a, b = result.case, baseline.case
    differences = [
        f"{word} ({_plain(getattr(a, name))} against {_plain(getattr(b, name))})"
        for name, word in LIKENESS
        if getattr(a, name) != getattr(b, name)
    ]
    if family(a) != family(b):
        differences.insert(0, f"model ({family(a)} against {family(b)})")
    if result.source != baseline.source:
        differences.insert(0, f"source ({result.source} against {baseline.source})")
    if not differences:
        return None
    return (
        f"'{a.label}' and '{b.label}' differ in {', '.join(differences)}; "
        "a ratio needs two results of one point"
    )


def ratio(result: Result, baseline: Result, metric: str) -> Ratio:
    """Times better than the baseline by one metric, from pairs of equal rounds of one sweep.

    Unlike rows, results that are not ok and undefined metrics give a Ratio without a value and with
    the reason.
    """
    direction = find_metric(metric).direction
    refusal = unlike(result, baseline)
    if refusal is not None:
        return Ratio(None, None, None, 0, refusal)
    for name, side in (("result", result), ("baseline", baseline)):
        if side.status != "ok":
            return Ratio(None, None, None, 0, f"the {name} is {side.status}: {side.reason}")
        if side.value(metric) is None:
            estimate = side.metrics.get(metric)
            why = "not measured" if estimate is None else estimate.null_reason
            return Ratio(None, None, None, 0, f"{metric} of the {name} is undefined: {why}")
    ours = dict(result.metrics[metric].by_round)
    theirs = dict(baseline.metrics[metric].by_round)
    rounds = sorted(ours.keys() & theirs.keys())
    if not rounds:
        return Ratio(None, None, None, 0, "the two were never measured in the same round")
    pairs = [(ours[r], theirs[r]) for r in rounds]
    if any(not (a > 0 and b > 0) for a, b in pairs):
        return Ratio(None, None, None, 0, f"{metric} is zero or negative on one side")
    times = [b / a if direction == "lower" else a / b for a, b in pairs]
    ends: dict[str, Any] = {
        "logs": tuple(math.log(t) for t in times),
        "rounds": tuple(rounds),
        "ours": _centre([a for a, _ in pairs]),
        "theirs": _centre([b for _, b in pairs]),
    }
    exact = repeats(result, metric) and repeats(baseline, metric)
    if len(times) == 1:
        alone = "one pair; an interval needs two rounds"
        return replace(Ratio(times[0], None, None, 1, None, alone, exact=exact), **ends)
    over = geometric_mean(times)
    return replace(Ratio(over.value, over.low, over.high, len(times), exact=exact), **ends)


def _centre(values: Sequence[float]) -> float:
    """The geometric mean; equal values are their own, to the digit."""
    if min(values) == max(values):
        return values[0]
    return math.exp(math.fsum(map(math.log, values)) / len(values))


# Units and metrics that depend on what the machine does meanwhile: times and rates, what a system
# hands out, and everything that a scheduler decides by the clock.
_NOISY_UNITS = ("ns", "J/token", "requests", "sequences")
_NOISY = (
    "batch_occupancy", "cache_utilisation", "cache_waste", "peak_bytes", "peak_places",
    "prefix_hit_rate", "roofline_fraction",
)  # fmt: skip


def counted(metric: Metric) -> bool:
    """Whether a metric follows from the work alone, whatever the machine does meanwhile."""
    noisy = metric.unit in _NOISY_UNITS or metric.unit.endswith("/s") or metric.name in _NOISY
    return not noisy


def repeats(result: Result, metric: str) -> bool:
    """Whether a counted metric is the same to the digit in every process; compiled code needs one.

    Such a number has no noise: two of them are equal or they are not.
    """
    values = [value for _, value in result.metrics[metric].by_round]
    enough = len(values) > 1 or result.source == "static"
    return counted(find_metric(metric)) and enough and len(set(values)) == 1


def baselines(results: Iterable[Result], label: str) -> dict[Point, Result]:
    """The results of the stack with that label, by their point."""
    return {point(r): r for r in results if r.case.label == label}


def _plain(value: object) -> str:
    """A field's value in a sentence."""
    return value.title if isinstance(value, GeneratePoint) else str(value)
