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
    # The kinds of workload that define it; `static` is of code that was compiled and not run.
    of: tuple[str, ...] = ("generate",)


_SERVE, _BOTH, _KERNEL, _STATIC = ("serve",), ("generate", "serve"), ("kernel",), ("static",)
_GENERATE_KERNEL, _QUALITY = ("generate", "kernel"), ("quality",)

# Places of the token that predicts, by which losses are told apart: early ones have little to go
# by, late ones show whether a cache or a window loses what lies far back.
QUALITY_BANDS = ((0, 16), (16, 64), (64, 128), (128, 256), (256, 512), (512, 1024))
# Other makers' implementations that may be timed in turns with a kernel: torch's attention by
# backend, `flex_attention`, a formula under `torch.compile`, and this project's own torch backend.
PEERS = ("flash", "cudnn", "efficient", "math", "flex", "compiled", "eager")
# Tokens between a needle and its question.
NEEDLE_DISTANCES = (16, 64, 256, 1024)

_ALL = (
    Metric("ttft", "ns", "lower",
           "first emission's stamp - submission, median over requests; in `serve` all times count "
           "from when a request was due, whenever it was handed in", _BOTH),
    Metric("ttft_p90", "ns", "lower", "the same, 90th percentile; needs 10 requests", _SERVE),
    Metric("ttft_p99", "ns", "lower", "the same, 99th percentile; needs 100 requests", _SERVE),
    Metric("ttft_submitted", "ns", "lower",
           "first emission's stamp - when the request was handed in, median; of `serve`", _SERVE),
    Metric("tpot", "ns", "lower",
           "(last stamp - first stamp) / (tokens - tokens of the first emission), median over "
           "requests; undefined when the first emission is also the last, or when any emission "
           "carries more tokens than a step can settle (then all between emissions are); of "
           "several answers the slowest", _BOTH),
    Metric("tpot_p90", "ns", "lower", "the same, 90th percentile; needs 10 requests", _SERVE),
    Metric("tpot_p99", "ns", "lower", "the same, 99th percentile; needs 100 requests", _SERVE),
    Metric("itl_p50", "ns", "lower",
           "gap to the previous emission / its tokens, weighted by tokens: median", _BOTH),
    Metric("itl_p90", "ns", "lower", "the same, 90th percentile; needs 10 gaps", _BOTH),
    Metric("itl_p99", "ns", "lower", "the same, 99th percentile; needs 100 gaps", _BOTH),
    Metric("step_gap", "ns", "lower",
           "gap between consecutive emissions of a request, median; requests that share both "
           "stamps give one gap"),
    Metric("tokens_per_step", "tokens", "higher", "emitted tokens / emissions after the first"),
    Metric("e2e", "ns", "lower", "last stamp - submission, median over requests", _BOTH),
    Metric("e2e_p90", "ns", "lower", "the same, 90th percentile; needs 10 requests", _SERVE),
    Metric("e2e_p99", "ns", "lower", "the same, 99th percentile; needs 100 requests", _SERVE),
    Metric("queue_time", "ns", "lower",
           "start of the step that first fed a request - when it was due, median", _SERVE),
    Metric("queue_time_p90", "ns", "lower", "the same, 90th percentile; needs 10 requests", _SERVE),
    Metric("queue_time_p99", "ns", "lower", "the same, 99th percentile; needs 100 requests",
           _SERVE),
    Metric("normalized_latency", "ns", "lower",
           "(last stamp - when the request was due) / its tokens, median over requests", _SERVE),
    Metric("normalized_latency_p90", "ns", "lower",
           "the same, 90th percentile; needs 10 requests", _SERVE),
    Metric("normalized_latency_p99", "ns", "lower",
           "the same, 99th percentile; needs 100 requests", _SERVE),
    Metric("generator_lateness", "ns", "lower",
           "most by which a request was handed in after it could have been: after it was due and "
           "the step before had ended", _SERVE),
    Metric("throughput", "tokens/s", "higher", "emitted tokens / (last stamp - submission)", _BOTH),
    Metric("goodput", "requests/s", "higher",
           "requests that meet every bound of the suite's slo / (last stamp - submission); an "
           "undefined time meets no bound", _BOTH),
    Metric("request_rate", "requests/s", "higher",
           "requests that were answered / (end of the last step - first request due)", _SERVE),
    Metric("refused", "requests", "lower", "requests that the engine said it can never serve",
           _SERVE),
    Metric("batch_occupancy", "ratio", "higher",
           "sequences in a step's batch / slots, mean over the steps' time", _SERVE),
    Metric("peak_sequences", "sequences", "higher", "most sequences that ran at once", _SERVE),
    Metric("peak_places", "tokens", "lower",
           "most places for tokens that the cache held for sequences at once", _SERVE),
    Metric("cache_utilisation", "ratio", "neither",
           "places that the cache holds for sequences / all it has, mean over the steps' time",
           _SERVE),
    Metric("cache_waste", "ratio", "lower",
           "1 - places with an entry / places held for sequences, means over the steps' time",
           _SERVE),
    Metric("prefix_hit_rate", "ratio", "higher",
           "prompt tokens found in the cache when a request entered / all prompt tokens", _SERVE),
    Metric("preemptions", "sequences", "lower",
           "times a running sequence lost its room and went back to the queue", _SERVE),
    Metric("swaps_out", "sequences", "lower", "those of them whose state went to host memory",
           _SERVE),
    Metric("prefill_throughput", "tokens/s", "higher",
           "prompt tokens / time of the steps before the first emission, timed directly"),
    Metric("decode_throughput", "tokens/s", "higher",
           "tokens emitted after the first emission / time of those steps, timed directly"),
    Metric("peak_bytes", "bytes", "lower",
           "peak allocated by the case; on a CPU the process's high-water mark above its start",
           _BOTH),
    Metric("state_bytes", "bytes", "lower",
           "bytes of the per-token and per-sequence entries held at the end, S = P + N - 1"),
    Metric("reserved_bytes", "bytes", "lower", "bytes the cache reserved for state, used or not",
           _BOTH),
    Metric("weights_bytes", "bytes", "lower", "bytes of all weights, drafts and heads included",
           _BOTH),
    Metric("kernel_time", "ns", "lower", "one call of a kernel by itself, median", _KERNEL),
    Metric("achieved_bandwidth", "bytes/s", "higher",
           "bytes of a decode step, or of a kernel's call, / its median time", _GENERATE_KERNEL),
    Metric("achieved_flops", "flop/s", "higher", "FLOPs of the same / its median time",
           _GENERATE_KERNEL),
    Metric("intensity", "flop/byte", "neither", "FLOPs / bytes of the same, by shapes",
           _GENERATE_KERNEL),
    Metric("roofline_fraction", "ratio", "higher",
           "physical floor of the same (the larger of bytes / bandwidth and FLOPs / peak) / its "
           "median time", _GENERATE_KERNEL),
    Metric("bandwidth_fraction", "ratio", "higher",
           "bytes of a kernel's call / its median time / the measured bandwidth of a copy",
           _KERNEL),
    Metric("matrix_fraction", "ratio", "higher",
           "FLOPs of the same / its median time / the device's measured matrix rate in the dtype",
           _KERNEL),
    *(Metric(f"speedup_{peer}", "ratio", "higher",
             f"time of a call of the peer '{peer}' / that of the kernel beside it, geometric mean "
             "of two rounds in which each went first once (ABBA), median over those", _KERNEL)
      for peer in PEERS),
    *(Metric(f"peer_time_{peer}", "ns", "neither",
             f"one call of '{peer}' in those rounds, median", _KERNEL)
      for peer in PEERS),
    Metric("registers", "registers", "lower", "32-bit registers a thread, of compiled code",
           _STATIC),
    Metric("spill_bytes", "bytes", "lower",
           "bytes a thread of registers that compiled code keeps in memory", _STATIC),
    Metric("shared_bytes", "bytes", "neither", "shared memory a block, of compiled code", _STATIC),
    Metric("occupancy", "ratio", "higher",
           "resident warps / warps that a multiprocessor can hold, by registers and shared memory",
           _STATIC),
    Metric("instructions", "instructions", "lower", "instructions of compiled code, padding apart",
           _STATIC),
    Metric("wide_load_share", "ratio", "higher",
           "global loads of 128 bits and more / all of them, by instructions of compiled code",
           _STATIC),
    Metric("async_copies", "instructions", "neither",
           "copies from global to shared memory past the registers, of compiled code", _STATIC),
    Metric("tensor_core_instructions", "instructions", "neither",
           "instructions of matrix units, of compiled code", _STATIC),
    Metric("local_accesses", "instructions", "lower",
           "reads and writes of memory private to a thread, of compiled code", _STATIC),
    Metric("energy_per_token", "J/token", "lower", "energy of the measured window / its tokens",
           _BOTH),
    Metric("token_agreement", "ratio", "higher",
           "share of emitted tokens equal to the reference's greedy choice, teacher-forced", _BOTH),
    Metric("bits_per_byte", "bits/byte", "lower",
           "sum of -log2 p(token | what stands before it in the window) / bytes of those tokens, "
           "over windows of held-out text", _QUALITY),
    *(Metric(f"bits_per_byte_{start}_{end}", "bits/byte", "lower",
             f"the same over tokens whose predecessor stands at {start} to {end - 1} of its window",
             _QUALITY)
      for start, end in QUALITY_BANDS),
    Metric("bits_per_byte_increase", "bits/byte", "lower",
           "bits_per_byte - that of the baseline, over the same windows", _QUALITY),
    Metric("kl_to_baseline", "nats", "lower",
           "KL(baseline || stack) of the next token, mean over the tokens of held-out windows",
           _QUALITY),
    Metric("top1_agreement", "ratio", "higher",
           "share of those tokens for which both think the same token the likeliest", _QUALITY),
    Metric("greedy_agreement", "tokens", "higher",
           "leading tokens of greedy text that are equal to the baseline's, mean over prompts; at "
           "most the tokens that are written", _QUALITY),
    Metric("copying_accuracy", "ratio", "higher",
           "share of tokens thought the likeliest in a passage that comes the second time",
           _QUALITY),
    Metric("copying_gain", "ratio", "higher",
           "copying_accuracy - the same share of the passage when it comes the first time",
           _QUALITY),
    Metric("cloze_accuracy", "ratio", "higher",
           "share of passages whose true continuation is likelier than three of other passages",
           _QUALITY),
    Metric("recall_accuracy", "ratio", "higher",
           "share of keys whose value is thought the likeliest, after pairs of both", _QUALITY),
    *(Metric(f"needle_accuracy_{distance}", "ratio", "higher",
             f"share of needles thought the likeliest by a question {distance} tokens later",
             _QUALITY)
      for distance in NEEDLE_DISTANCES),
)  # fmt: skip

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}


def metric(name: str) -> Metric:
    """The metric of that name; UsageError with the closest name otherwise."""
    if name not in METRICS:
        raise unknown("metric", name, METRICS)
    return METRICS[name]
