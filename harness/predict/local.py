"""Measure what predictions need on this processor: rates of a forward's operations, one by one.

Nothing here times a technique: products, attention, what lies between them, and an engine whose
model is so small that only its host's work is left. A prediction is then checked against techniques
that were not fitted. Medians are taken, not the best of many: predicted is what is typical.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention, silu

from harness import stack
from harness.cost import Cost
from harness.engine.build import build
from harness.engine.request import Request
from harness.hardware.estimate import fold
from harness.model.norm import RMSNorm
from harness.model.rope import RopeTable, rotate
from harness.model.source import ModelSource
from harness.predict.efficiency import Efficiency, Local
from harness.predict.fitting import log_errors, minimise
from harness.predict.forward import forward
from harness.predict.products import Rates, product_seconds
from harness.shape import DTYPE_BYTES, BatchShape, DTypeName, ModelShape

_MIB = 1024**2
# Weights of a small model, of one that leaves the second-level cache, and of ones in memory.
_WORKING_SETS = (1 * _MIB, 4 * _MIB, 16 * _MIB, 64 * _MIB, 192 * _MIB)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 256)
_SECONDS = 0.03  # a measurement, at least, and three of it
_PROMPT, _NEW, _REPETITIONS = 8, 24, 6  # of the tiny engine
_TINY = ModelShape(
    vocab=64, width=32, layers=2, heads=2, kv_heads=2, head_dim=16, ff=32, max_len=256
)


def measure(threads: int, dtype: DTypeName) -> Local:
    """Measure in this process, about five seconds on an idle core."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode():
            return _measure(dtype)
    finally:
        torch.set_num_threads(before)


def _measure(dtype: DTypeName) -> Local:
    kind = getattr(torch, dtype)
    size = DTYPE_BYTES[dtype]
    launch = _typical(partial(torch.add, torch.ones(1, dtype=kind), torch.ones(1, dtype=kind)))
    bandwidth = tuple(_bandwidth(working_set, kind, launch) for working_set in _WORKING_SETS)
    flops_per_s = max(_matrix_rate(n, kind) for n in (256, 512))
    first = Efficiency(
        matrix=1.0, memory=1.0, launch_seconds=launch, spread=0.0, source="measured here"
    )
    rates = Rates(flops_per_s, bandwidth, None, first)
    fitted, spread = _fit_products(rates, kind, size)
    rates = Rates(flops_per_s, bandwidth, None, fitted)
    fitted = _fit_attention(rates, kind, size)
    fitted = fitted.model_copy(update={"between": _between_share(rates, kind, size)})
    fitted = _fit_host(Rates(flops_per_s, bandwidth, None, fitted), dtype, size)
    return Local(
        flops_per_s=flops_per_s,
        bandwidth=bandwidth,
        efficiency=fitted.model_copy(update={"spread": spread}),
    )


def _typical(thunk: Callable[[], Any], calls: int = 1) -> float:
    """Median seconds of a call, of at least three over `_SECONDS`, after one to warm up."""
    thunk()
    taken: list[int] = []
    begun = time.perf_counter()
    while len(taken) < 3 or time.perf_counter() - begun < _SECONDS:
        start = time.perf_counter_ns()
        thunk()
        taken.append(time.perf_counter_ns() - start)
    return float(np.median(taken)) * 1e-9 / calls


def _matrices(working_set: int, kind: torch.dtype, inner: int, outer: int) -> list[Tensor]:
    """Weights [inner, outer] that together are as large as the working set."""
    size = inner * outer * kind.itemsize
    return [torch.ones(inner, outer, dtype=kind) for _ in range(max(1, working_set // size))]


def _sides(working_set: int) -> tuple[int, int]:
    """The shape of the matrices that a model with so many bytes of weights has."""
    return (256, 768) if working_set <= 32 * _MIB else (1024, 3072)


def _pass(rows: int, weights: Sequence[Tensor]) -> Callable[[], None]:
    x = torch.ones(rows, weights[0].shape[0], dtype=weights[0].dtype)

    def through() -> None:
        for weight in weights:
            torch.mm(x, weight)

    return through


def _bandwidth(working_set: int, kind: torch.dtype, launch: float) -> tuple[float, float]:
    """Bytes a second of weights that one row is multiplied with, by their bytes in all."""
    weights = _matrices(working_set, kind, *_sides(working_set))
    seconds = _typical(_pass(1, weights), len(weights)) - launch
    held = weights[0].numel() * kind.itemsize
    return float(held * len(weights)), held / max(seconds, 1e-9)


def _matrix_rate(n: int, kind: torch.dtype) -> float:
    a = torch.ones(n, n, dtype=kind)
    return 2.0 * n**3 / _typical(partial(torch.mm, a, a))


def _fit_products(rates: Rates, kind: torch.dtype, size: int) -> tuple[Efficiency, float]:
    """Shares of matrix rate and bandwidth over a table of rows and working sets, and the error."""
    table = []
    for working_set in _WORKING_SETS[1:4]:
        inner, outer = _sides(working_set)
        weights = _matrices(working_set, kind, inner, outer)
        for rows in _ROWS:
            # Many rows take long, and the working set then no longer matters.
            used = weights if rows <= 16 else weights[:2]
            seconds = _typical(_pass(rows, used), len(used))
            table.append((rows, inner, outer, working_set, seconds))
    measured = np.array([entry[-1] for entry in table])

    def errors(values: Sequence[float]) -> Any:
        share = rates.efficiency.model_copy(update={"matrix": values[0], "memory": values[1]})
        tried = Rates(rates.flops_per_s, rates.bandwidth, None, share)
        seconds = [
            product_seconds(rows, inner, outer, tried, size, working_set=working_set)
            for rows, inner, outer, working_set, _ in table
        ]
        return log_errors(np.array(seconds) + share.launch_seconds, measured)

    best = minimise(lambda values: float(np.abs(errors(values)).mean()), (1.0, 1.0))
    spread = float(np.sqrt((errors(best) ** 2).mean()))
    return rates.efficiency.model_copy(update={"matrix": best[0], "memory": best[1]}), spread


def _fit_attention(rates: Rates, kind: torch.dtype, size: int) -> Efficiency:
    """Shares of attention over decode steps and prompts, with and without grouped queries."""
    H = 32
    table = []
    for B, T, S, N, K in (
        (1, 1, 256, 8, 8), (8, 1, 256, 8, 8), (1, 1, 1024, 8, 8), (8, 1, 256, 8, 2),
        (8, 1, 1024, 8, 2), (1, 64, 0, 8, 8), (1, 256, 0, 8, 8), (1, 256, 0, 8, 2),
        (1, 1024, 0, 8, 8),
    ):  # fmt: skip
        length = S + T
        k, v = (torch.ones(B, K, length, H, dtype=kind) for _ in range(2))
        rows = (B, K, N // K, H) if T == 1 else (B, N, T, H)
        q = torch.ones(rows, dtype=kind)
        call = partial(
            scaled_dot_product_attention, q, k, v, is_causal=T > 1, enable_gqa=T > 1 and N != K
        )
        pairs = T * S + T * (T + 1) / 2
        work = Cost(flops=4.0 * B * N * H * pairs, state_read_bytes=2.0 * B * K * length * H * size)
        table.append((work, _typical(call)))
    measured = np.array([seconds for _, seconds in table])

    def shares(values: Sequence[float]) -> Efficiency:
        update = {"attention_matrix": values[0], "attention_memory": values[1]}
        return rates.efficiency.model_copy(update=update)

    def badness(values: Sequence[float]) -> float:
        tried = Rates(rates.flops_per_s, rates.bandwidth, None, shares(values))
        seconds = [
            float(forward(work, tried, size, working_set=work.state_read_bytes).seconds)
            for work, _ in table
        ]
        seconds_with = np.array(seconds) + rates.efficiency.launch_seconds
        return float(np.abs(log_errors(seconds_with, measured)).mean())

    return shares(minimise(badness, (0.3, 0.3)))


def _between_share(rates: Rates, kind: torch.dtype, size: int) -> float:
    """Share of bandwidth of what lies between the products: norm, rotation, gate; 256 rows."""
    rows, width, heads, dim, ff = 256, 256, 16, 32, 768
    x = torch.ones(rows, width, dtype=kind)
    norm = RMSNorm(torch.ones(width, dtype=kind), 1e-5)
    qk = torch.ones(rows, heads, dim, dtype=kind)
    table = RopeTable(_TINY, dim, rows, kind, "cpu").at(list(range(rows)))
    gate = torch.ones(rows, 2 * ff, dtype=kind)

    def between() -> None:
        norm(x)
        norm(x)
        rotate(qk, table)
        silu(gate[:, :ff]).mul_(gate[:, ff:])

    # As `attention_cost` counts it: what fused operations would move.
    moved = rows * (4 * width + 2 * heads * dim + 3 * ff) * size
    seconds = max(_typical(between) - 8 * rates.efficiency.launch_seconds, 1e-9)
    return moved / seconds / float(rates.bandwidth_at(moved))


def _fit_host(rates: Rates, dtype: DTypeName, size: int) -> Efficiency:
    """Seconds of a launch, of a step and of a sequence in it, from engines that compute nothing."""
    lines, seconds = [], []
    for layers in (2, 8):
        shape = ModelShape(**{**vars(_TINY), "layers": layers})
        for batch in (1, 8):
            for work, taken in _engine_steps(shape, batch, dtype):
                device = float(forward(work, _bare(rates), size, working_set=1.0).seconds)
                lines.append((work.launches, 1.0, batch))
                seconds.append(max(taken - device, 0.0))
    # Relative errors count, so that short steps do not drown in long ones.
    A, b = np.array(lines, dtype=float), np.array(seconds)
    weight = 1 / np.maximum(b, 1e-9)
    launch, step, sequence = np.linalg.lstsq(A * weight[:, None], b * weight, rcond=None)[0]
    return rates.efficiency.model_copy(
        update={
            "launch_seconds": max(float(launch), 0.0),
            "step_seconds": max(float(step), 0.0),
            "sequence_seconds": max(float(sequence), 0.0),
        }
    )


def _bare(rates: Rates) -> Rates:
    share = rates.efficiency.model_copy(update={"launch_seconds": 0.0})
    return Rates(rates.flops_per_s, rates.bandwidth, None, share)


def _engine_steps(shape: ModelShape, batch: int, dtype: DTypeName) -> Iterator[tuple[Cost, float]]:
    """Work and median seconds of a decode step and of a prefill of a tiny engine."""
    source = ModelSource("calibration", "random", shape)
    spec = stack.parse("mha")
    plan = stack.resolve(
        spec, source, dtype=dtype, backend="torch", slots=batch, max_tokens=_PROMPT + _NEW
    )
    parts = stack.techniques(spec)
    engine = build(plan, source)
    prefills, decodes = [], []
    for repetition in range(_REPETITIONS):
        for i in range(batch):
            prompt = tuple(range(1, 1 + _PROMPT))
            engine.submit(Request(repetition * batch + i, prompt, _NEW))
        taken: list[float] = []
        while engine.has_work:
            start = time.perf_counter_ns()
            engine.step()
            taken.append((time.perf_counter_ns() - start) * 1e-9)
        prefills.append(taken[0])
        decodes += taken[1:]
    half = BatchShape(batch, 1, _PROMPT + _NEW // 2)
    yield fold(plan, parts, half), float(np.median(decodes))
    yield fold(plan, parts, BatchShape(batch, _PROMPT, 0)), float(np.median(prefills))
