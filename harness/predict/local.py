"""Measure what predictions need on this processor: rates of a forward's operations, one by one.

Nothing here times a technique: operations by themselves, and an engine whose model is so small that
only its host's work is left. A prediction is then checked against techniques that were not fitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from harness import stack
from harness.cost import Cost
from harness.engine.build import build
from harness.engine.request import Request
from harness.hardware.estimate import fold
from harness.model.source import ModelSource
from harness.predict import operations
from harness.predict.efficiency import Efficiency, Local
from harness.predict.fitting import log_errors, minimise
from harness.predict.forward import forward
from harness.predict.operations import Clock
from harness.predict.products import Rates
from harness.shape import DTYPE_BYTES, BatchShape, DTypeName, ModelShape

_PROMPT, _NEW, _REPETITIONS = 8, 24, 6  # of the tiny engine
_LAYERS, _BATCHES = (2, 8), (1, 8)
_TINY = ModelShape(
    vocab=64, width=32, layers=2, heads=2, kv_heads=2, head_dim=16, ff=32, max_len=256
)
# Microseconds of a launch, a step and a sequence, from which the fit begins.
_START = (10.0, 100.0, 20.0)


def measure(threads: int, dtype: DTypeName) -> Local:
    """Measure in this process, about fifteen seconds on an idle core."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode():
            return _measure(threads, dtype)
    finally:
        torch.set_num_threads(before)


def _measure(threads: int, dtype: DTypeName) -> Local:
    now = operations.clock(threads)
    kind, size = getattr(torch, dtype), DTYPE_BYTES[dtype]
    measured, flops_per_s = operations.measure(kind, now)
    bandwidth = size / measured.product_seconds[0][-1]
    bare = Efficiency(
        matrix=1.0, memory=1.0, launch_seconds=0.0, spread=0.0, source="measured here"
    )
    rates = Rates(flops_per_s, bandwidth, threads, bare, measured)
    efficiency, wrong = _fit_host(rates, dtype, size, now)
    wrong += operations.errors(measured, kind, now)
    spread = float(np.sqrt(np.mean(np.square(wrong))))
    return Local(
        flops_per_s=flops_per_s,
        bandwidth=bandwidth,
        measured=measured,
        efficiency=efficiency.model_copy(update={"spread": spread}),
    )


def _fit_host(
    rates: Rates, dtype: DTypeName, size: int, now: Clock
) -> tuple[Efficiency, list[float]]:
    """Seconds of a launch, of a step and of a sequence in it, from engines that compute nothing.

    Also how far each of those engines' steps is from what comes of it, as logarithms.
    """
    works: list[tuple[Cost, int, int]] = []
    taken: list[float] = []
    for layers in _LAYERS:
        shape = ModelShape(**{**vars(_TINY), "layers": layers})
        for batch in _BATCHES:
            for work, queries, seconds in _engine_steps(shape, batch, dtype, now):
                works.append((work, batch, queries))
                taken.append(seconds)

    def shares(values: Sequence[float]) -> Efficiency:
        launch, step, sequence = (float(value) * 1e-6 for value in values)
        update = {"launch_seconds": launch, "step_seconds": step, "sequence_seconds": sequence}
        return rates.efficiency.model_copy(update=update)

    def errors(values: Sequence[float]) -> list[float]:
        tried = Rates(
            rates.flops_per_s, rates.bandwidth, rates.multiprocessors, shares(values),
            rates.measured,
        )  # fmt: skip
        guessed = [
            float(forward(work, tried, size, batch, 1.0, queries).seconds)
            for work, batch, queries in works
        ]
        found: list[float] = log_errors(np.array(guessed), np.array(taken)).tolist()
        return found

    best = minimise(lambda values: float(np.abs(errors(values)).mean()), _START)
    return shares(best), errors(best)


def _engine_steps(
    shape: ModelShape, batch: int, dtype: DTypeName, now: Clock
) -> Iterator[tuple[Cost, int, float]]:
    """Work, queries and median seconds of a decode step and of a prefill of a tiny engine."""
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
            start = now()
            engine.step()
            taken.append((now() - start) * 1e-9)
        prefills.append(taken[0])
        decodes += taken[1:]
    half = BatchShape(batch, 1, _PROMPT + _NEW // 2)
    yield fold(plan, parts, half), 1, float(np.median(decodes))
    yield fold(plan, parts, BatchShape(batch, _PROMPT, 0)), _PROMPT, float(np.median(prefills))
