"""Goodput: how many requests a second were served as quickly as the suite's objective asks."""

from __future__ import annotations

from collections.abc import Sequence

from harness.measure.interval import grouped_median
from harness.measure.latency import Timing, burst, timings
from harness.measure.trace import Trace
from harness.run import MetricValue
from harness.suite.slo import Slo


def goodput(traces: Sequence[Trace], slo: Slo | None, lookahead: int) -> MetricValue:
    """Requests that meet every bound / time from submission to last stamp, by repetition.

    An undefined time meets no bound on it: one token has no time per token, and tokens that were
    held back have none that could be believed.
    """
    if slo is None:
        reason = "the suite names no slo"
        return MetricValue(name="goodput", value=None, null_reason=reason)
    known = burst(traces, lookahead) is None
    rates = []
    for trace in traces:
        met = sum(meets(timing, slo, known) for timing in timings(trace))
        whole_ns = trace.emissions[-1].stamp_ns - trace.submissions[0].stamp_ns
        rates.append([met / whole_ns * 1e9])
    found = grouped_median(rates, pool=False)
    return MetricValue(
        name="goodput", value=found.value, n=len(rates), ci_low=found.low, ci_high=found.high
    )


def meets(timing: Timing, slo: Slo, tpot_known: bool = True) -> bool:
    """Whether one request meets every bound of the objective."""
    tpot_ns = timing.tpot_ns if tpot_known else None
    bounds = ((timing.ttft_ns, slo.ttft_ms), (tpot_ns, slo.tpot_ms))
    return all(
        limit_ms is None or (time_ns is not None and time_ns <= limit_ms * 1e6)
        for time_ns, limit_ms in bounds
    )
