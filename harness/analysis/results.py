"""Runs to results: one case of a sweep, its worst status, and metrics over its processes.

The process is the unit of replication: an interval is over the values of the rounds, never over the
samples of one process, which would call most pairs of identical programs different.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from harness.analysis.intervals import geometric_mean
from harness.analysis.steps import StepGrowth, step_growth
from harness.analysis.timeline import Timeline, timeline
from harness.run import GateResult, MetricValue, RunRecord, Status
from harness.suite.case import Case
from harness.suite.points import GeneratePoint, QualityPoint

if TYPE_CHECKING:
    from harness.store.rows import StoredRun

# From worst to best. A wrong output is worse than none; a round nobody tried says nothing.
SEVERITY: tuple[Status, ...] = (
    "gate_failed",
    "crashed",
    "error",
    "timeout",
    "oom",
    "invalid",
    "oom_predicted",
    "unsupported",
    "predicted",
    "ok",
    "skipped",
)

NOT_TRIED: tuple[Status, ...] = ("unsupported", "skipped", "predicted")
# Metrics that compare two sides within each process.
_PAIRED = "speedup_"
# Whose runs carry numbers.
WITH_NUMBERS: tuple[Status, ...] = ("ok", "predicted")


@dataclass(frozen=True)
class Estimate:
    """One metric of one case: the centre over processes and its 95 % interval.

    `value` is None exactly when `null_reason` says why; the bounds are None exactly when
    `interval_reason` does. `by_round` keeps each process's value, for pairing and for fits.
    """

    value: float | None
    null_reason: str | None
    n_processes: int
    ci_low: float | None
    ci_high: float | None
    interval_reason: str | None = None
    by_round: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class GateSummary:
    """One gate over all runs of a case: passed only where every run passed it."""

    name: str
    passed: bool
    n_runs: int
    n_passed: int
    worst: GateResult  # a failed one first, else the one closest to its bound


@dataclass(frozen=True)
class Result:
    """One case in one sweep, derived from its runs; metrics only where it is ok or predicted."""

    case: Case
    source: str  # measured | predicted | static
    status: Status
    reason: str | None
    rounds: int  # runs that count: the last attempt of each round
    metrics: dict[str, Estimate]
    gates: tuple[GateSummary, ...]
    run_ids: tuple[int, ...]
    implementations: tuple[tuple[str, str], ...]  # operation, implementation
    telemetry: tuple[Mapping[str, Any], ...] = ()  # what each run noted about itself
    step_growth: StepGrowth | None = None
    timeline: Timeline | None = None  # of its first process, where it served requests

    @property
    def failed(self) -> bool:
        """Whether it was tried and did not yield a number that can be trusted."""
        return self.status != "ok" and self.status not in NOT_TRIED

    @property
    def generates(self) -> bool:
        """Whether it ran a stack at B, P and N; others serve, ask for quality or run a kernel."""
        return isinstance(self.case.workload, GeneratePoint)

    def value(self, metric: str) -> float | None:
        """The metric's estimate, None where it is undefined or was not measured."""
        estimate = self.metrics.get(metric)
        return None if estimate is None else estimate.value


def results(runs: Sequence[StoredRun]) -> list[Result]:
    """One Result a case and source, in the order in which the cases first appear."""
    grouped: dict[tuple[str, str], dict[int, StoredRun]] = {}
    for run in runs:
        rounds = grouped.setdefault((run.source, run.case.hash), {})
        known = rounds.get(run.record.round)
        if known is None or known.record.attempt < run.record.attempt:
            rounds[run.record.round] = run
    return [_result([rounds[r] for r in sorted(rounds)]) for rounds in grouped.values()]


def estimate(values: Iterable[tuple[int, MetricValue]]) -> Estimate:
    """One metric over the processes that define it: (round, value of that process)."""
    seen = list(values)
    defined = [(r, v.value) for r, v in seen if v.value is not None]
    if not defined:
        reasons = [v.null_reason for _, v in seen if v.null_reason]
        return Estimate(None, reasons[0] if reasons else "not measured", 0, None, None, "no value")
    numbers, pairs = [value for _, value in defined], tuple(defined)
    if len(numbers) == 1:
        reason = "one process; an interval needs two rounds or more"
        return Estimate(numbers[0], None, 1, None, None, reason, pairs)
    if min(numbers) <= 0 and min(numbers) != max(numbers):
        reason = "not every value is positive, so there is no interval on logarithms"
        return Estimate(median(numbers), None, len(numbers), None, None, reason, pairs)
    over = geometric_mean(numbers)
    return Estimate(over.value, None, len(numbers), over.low, over.high, None, pairs)


def predicted(metric: MetricValue) -> Estimate:
    """One predicted metric: its bounds are the model's, and no process was made."""
    reason = "no process: a prediction" if metric.ci_low is None else None
    once = () if metric.value is None else ((0, metric.value),)
    return Estimate(
        metric.value, metric.null_reason, 0, metric.ci_low, metric.ci_high, reason, once
    )


def computed(metric: MetricValue) -> Estimate:
    """One metric of quality: every process computes the same, so its bounds are those over texts,
    as the process gave them."""
    reason = None if metric.ci_low is not None else metric.null_reason or "a single text"
    once = () if metric.value is None else ((0, metric.value),)
    return Estimate(
        metric.value, metric.null_reason, 1, metric.ci_low, metric.ci_high, reason, once
    )


def paired(values: Iterable[tuple[int, MetricValue]]) -> Estimate:
    """One ratio of two implementations that took turns in each process, over the processes.

    Both sides had the luck of one process, so that one alone has an interval: over its pairs.
    """
    seen = list(values)
    over = estimate(seen)
    if over.n_processes != 1:
        return over
    (once,) = (v for _, v in seen if v.value is not None)
    reason = None if once.ci_low is not None else "too few pairs for an interval"
    return replace(over, ci_low=once.ci_low, ci_high=once.ci_high, interval_reason=reason)


def _result(runs: list[StoredRun]) -> Result:
    """The result of one case from the last attempt of each of its rounds."""
    records = [run.record for run in runs]
    worst = min(runs, key=lambda run: SEVERITY.index(run.record.status)).record
    measured = [record for record in records if record.status in WITH_NUMBERS]
    metrics: dict[str, Estimate] = {}
    if worst.status == "predicted":
        metrics = {metric.name: predicted(metric) for metric in worst.metrics}
    elif worst.status == "ok" and isinstance(runs[0].case.workload, QualityPoint):
        metrics = {metric.name: computed(metric) for metric in worst.metrics}
    elif worst.status == "ok":
        names = dict.fromkeys(m.name for record in measured for m in record.metrics)
        for name in names:
            found = ((r.round, m) for r in measured for m in r.metrics if m.name == name)
            metrics[name] = (paired if name.startswith(_PAIRED) else estimate)(found)
    return Result(
        case=runs[0].case,
        source=runs[0].source,
        status=worst.status,
        reason=_reason(worst.status, [(r.round, r.status, r.reason or "") for r in records]),
        rounds=len([record for record in records if record.status != "skipped"]),
        metrics=metrics,
        gates=_gates([gate for record in records for gate in record.gates]),
        run_ids=tuple(run.id for run in runs),
        implementations=tuple(sorted({i for r in records for i in r.implementations.items()})),
        telemetry=tuple(record.telemetry for record in records),
        step_growth=_step_growth(runs[0].case, measured) if worst.status == "ok" else None,
        timeline=timeline(measured[0]) if worst.status == "ok" else None,
    )


def _step_growth(case: Case, measured: Sequence[RunRecord]) -> StepGrowth | None:
    return step_growth(case, measured) if isinstance(case.workload, GeneratePoint) else None


def _reason(status: Status, rounds: list[tuple[int, Status, str]]) -> str | None:
    """Why the case is not ok, with the round where the rounds disagree."""
    if status in WITH_NUMBERS and not any(reason for _, _, reason in rounds):
        return None
    same = [(number, reason) for number, other, reason in rounds if other == status]
    text = same[0][1] or f"no reason was recorded for status {status}"
    if len(same) == len(rounds):
        return text
    which = ", ".join(str(number) for number, _ in same)
    return f"{text} (round {which} of {len(rounds)})"


def _gates(gates: list[GateResult]) -> tuple[GateSummary, ...]:
    """Every gate that ran, once, in the order in which they ran."""
    summaries = []
    for name in dict.fromkeys(gate.name for gate in gates):
        same = [gate for gate in gates if gate.name == name]
        worst = min(same, key=lambda gate: (gate.passed, -_strain(gate)))
        passed = [gate for gate in same if gate.passed]
        summaries.append(GateSummary(name, len(passed) == len(same), len(same), len(passed), worst))
    return tuple(summaries)


def _strain(gate: GateResult) -> float:
    """How close a gate came to its bound, as a share of it; 0 where it has no numbers."""
    if gate.observed is None or not gate.bound:
        return 0.0
    return gate.observed / gate.bound
