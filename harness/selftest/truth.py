"""The numbers of a run held to what the fake itself saw, by formulas written a second time.

Each check gives the faults it finds, as sentences; none means that the numbers are true.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from harness.run import RunRecord

# The fake reads its clock some microseconds before the instrument does, or, where something else
# takes the core between the two, milliseconds before; formulas that are wrong are off by far more.
TOLERANCE = 0.1
# As `harness.selftest.wrapper` prints them; that module imports torch.
TRUTH = "truth "


@dataclass(frozen=True)
class Told:
    """One repetition of a batch of one, as the fake saw it."""

    submitted_ns: int
    emissions: tuple[tuple[int, int], ...]  # (stamp, tokens)

    @property
    def tokens(self) -> int:
        """All tokens."""
        return sum(tokens for _, tokens in self.emissions)

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """(ns, tokens) of every emission after the first."""
        return [(b - a, tokens) for (a, _), (b, tokens) in pairwise(self.emissions)]

    @property
    def span_ns(self) -> int:
        """First to last emission."""
        return self.emissions[-1][0] - self.emissions[0][0]


Check = Callable[[RunRecord], list[str]]


def told(record: RunRecord) -> list[Told]:
    """The timed repetitions, which are the last ones, as far as the kept output reaches."""
    lines = [line for line in record.stderr_tail.splitlines() if line.startswith(TRUTH)]
    found = []
    for line in lines[-int(record.telemetry["sampling"]["repetitions"]) :]:
        read = json.loads(line.removeprefix(TRUTH))
        found.append(Told(read["submitted"], tuple((at, n) for at, n in read["emissions"])))
    return found


def times(record: RunRecord) -> list[str]:
    """Latencies and rates are those that the fake saw."""
    seen = told(record)
    if not seen:
        return ["the fake's own log is missing"]
    gaps = [gap for one in seen for gap in one.gaps]
    later = [sum(tokens for _, tokens in one.gaps) for one in seen]
    return [
        *_near(record, "ttft", median(one.emissions[0][0] - one.submitted_ns for one in seen)),
        *_near(record, "e2e", median(one.emissions[-1][0] - one.submitted_ns for one in seen)),
        *_near(
            record,
            "tpot",
            median(one.span_ns / tokens for one, tokens in zip(seen, later, strict=True)),
        ),
        *_near(record, "step_gap", median(ns for ns, _ in gaps)),
        *_near(
            record, "itl_p50", median(ns / tokens for ns, tokens in gaps for _ in range(tokens))
        ),
        *_near(record, "tokens_per_step", sum(later) / len(gaps)),
        *_near(
            record,
            "throughput",
            median(one.tokens / (one.emissions[-1][0] - one.submitted_ns) * 1e9 for one in seen),
        ),
    ]


def sums(record: RunRecord) -> list[str]:
    """Of the raw samples, first token times and gaps add up to the whole, to the nanosecond."""
    totals = {samples.metric: sum(samples.values) for samples in record.samples}
    parts = totals.get("ttft", 0) + totals.get("step_gap", 0)
    whole = totals.get("e2e", 0)
    return [] if parts == whole else [f"ttft and gaps add up to {parts} ns, e2e to {whole}"]


def gap_count(record: RunRecord) -> list[str]:
    """There is one gap fewer than tokens: the first token's time is none (vllm#7242)."""
    repetitions = int(record.telemetry["sampling"]["repetitions"])
    wanted = sum(len(one.gaps) for one in told(record)[:1]) * repetitions
    n = next(metric.n for metric in record.metrics if metric.name == "itl_p50")
    return [] if n == wanted else [f"itl_p50 is over {n} gaps, there were {wanted}"]


def slept(record: RunRecord) -> list[str]:
    """No time is shorter than the sleeps in it, whatever either clock says."""
    least_ns = {"ttft": 60e6, "step_gap": 20e6, "tpot": 20e6, "e2e": 200e6}
    values = _values(record)
    return [
        f"{name} is {values.get(name)} ns, the sleeps alone take {least}"
        for name, least in least_ns.items()
        if not (values.get(name) or 0) >= least
    ]


def single_token(record: RunRecord) -> list[str]:
    """With one token there is a first token's time and nothing between tokens (sglang#1585)."""
    seen = told(record)
    faults = _near(record, "ttft", median(one.emissions[0][0] - one.submitted_ns for one in seen))
    undefined = ("tpot", "itl_p50", "itl_p90", "itl_p99", "step_gap", "tokens_per_step")
    for metric in record.metrics:
        if metric.name in undefined and (metric.value is not None or not metric.null_reason):
            faults.append(f"{metric.name} is {metric.value}, and must be undefined with a reason")
    return faults


def held_back(record: RunRecord) -> list[str]:
    """Tokens that came out together had no times of their own; the whole has its floor."""
    undefined = ("tpot", "itl_p50", "itl_p90", "itl_p99", "step_gap", "decode_throughput")
    faults = [
        f"{metric.name} is {metric.value}, of tokens that were held back"
        for metric in record.metrics
        if metric.name in undefined
        and (metric.value is not None or "held back" not in (metric.null_reason or ""))
    ]
    if "plausible_e2e" not in {gate.name for gate in record.gates}:
        faults.append("the whole was not held to its floor")
    return faults


def _near(record: RunRecord, name: str, true: float) -> list[str]:
    value = _values(record).get(name)
    if value is not None and abs(value - true) <= TOLERANCE * true:
        return []
    return [f"{name} is {value}, and in truth {true:.6g}"]


def _values(record: RunRecord) -> dict[str, float | None]:
    return {metric.name: metric.value for metric in record.metrics}
