"""Every metric there is: unit, direction and formula. `harness list metrics` prints this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.errors import unknown

Direction = Literal["lower", "higher", "neither"]


@dataclass(frozen=True)
class Metric:
    """One metric: the unit of stored values, which way is better, and what exactly it is."""

    name: str
    unit: str
    direction: Direction
    formula: str


_ALL = (
    Metric("ttft", "ns", "lower", "first emission's stamp - submission, median over requests"),
    Metric("tpot", "ns", "lower",
           "(last stamp - first stamp) / (tokens - tokens of the first emission), median over "
           "requests; undefined when the first emission is also the last, or when any emission "
           "carries more tokens than a step can settle (then all between emissions are)"),
    Metric("itl_p50", "ns", "lower",
           "gap to the previous emission / its tokens, weighted by tokens: median"),
    Metric("itl_p90", "ns", "lower", "the same, 90th percentile; needs 10 gaps"),
    Metric("itl_p99", "ns", "lower", "the same, 99th percentile; needs 100 gaps"),
    Metric("step_gap", "ns", "lower",
           "gap between consecutive emissions of a request, median; requests that share both "
           "stamps give one gap"),
    Metric("tokens_per_step", "tokens", "higher", "emitted tokens / emissions after the first"),
    Metric("e2e", "ns", "lower", "last stamp - submission, median over requests"),
    Metric("throughput", "tokens/s", "higher", "emitted tokens / (last stamp - submission)"),
    Metric("goodput", "requests/s", "higher",
           "requests that meet every bound of the suite's slo / (last stamp - submission); an "
           "undefined time meets no bound"),
    Metric("prefill_throughput", "tokens/s", "higher",
           "prompt tokens / time of the steps before the first emission, timed directly"),
    Metric("decode_throughput", "tokens/s", "higher",
           "tokens emitted after the first emission / time of those steps, timed directly"),
    Metric("peak_bytes", "bytes", "lower",
           "peak allocated by the case; on a CPU the process's high-water mark above its start"),
    Metric("state_bytes", "bytes", "lower",
           "bytes of the per-token and per-sequence entries held at the end, S = P + N - 1"),
    Metric("reserved_bytes", "bytes", "lower", "bytes the cache reserved for state, used or not"),
    Metric("weights_bytes", "bytes", "lower", "bytes of all weights, drafts and heads included"),
    Metric("kernel_time", "ns", "lower", "one call of a kernel by itself, median"),
    Metric("achieved_bandwidth", "bytes/s", "higher",
           "bytes of a decode step, or of a kernel's call, / its median time"),
    Metric("achieved_flops", "flop/s", "higher", "FLOPs of the same / its median time"),
    Metric("intensity", "flop/byte", "neither", "FLOPs / bytes of the same, by shapes"),
    Metric("roofline_fraction", "ratio", "higher",
           "physical floor of the same (the larger of bytes / bandwidth and FLOPs / peak) / its "
           "median time"),
    Metric("energy_per_token", "J/token", "lower", "energy of the measured window / its tokens"),
    Metric("token_agreement", "ratio", "higher",
           "share of emitted tokens equal to the reference's greedy choice, teacher-forced"),
)  # fmt: skip

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}


def metric(name: str) -> Metric:
    """The metric of that name; UsageError with the closest name otherwise."""
    if name not in METRICS:
        raise unknown("metric", name, METRICS)
    return METRICS[name]
