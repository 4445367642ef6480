"""Measure what predictions need on this processor: rates of a forward's operations, one by one.

Nothing here times a technique: operations by themselves, and an engine whose model is so small that
only its host's work is left. A prediction is then checked against techniques that were not fitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from harness import stack
from harness.cost import Cost
from harness.engine.build import build
from harness.engine.request import Request
from harness.hardware.estimate import fold
from harness.model.source import ModelSource
from harness.predict import operations
from harness.predict.efficiency import Efficiency, Local, stacks_spread
from harness.predict.fitting import log_errors, minimise
from harness.predict.forward import forward
from harness.predict.products import Rates
from harness.predict.timing import Clock, clock
from harness.shape import DTYPE_BYTES, BatchShape, DTypeName, ModelShape

# Of the tiny engines. A prompt of 8 tokens or less would be fed as a step is.
_PROMPT, _NEW = 16, 24
_LAYERS, _BATCHES = (2, 8), (1, 8)
_PASSES, _REPETITIONS = 3, 2  # of all engines in turn, and of each in a pass
_TINY = ModelShape(
    vocab=64, width=32, layers=2, heads=2, kv_heads=2, head_dim=16, ff=32, max_len=256
)
# Microseconds of a launch, a step, a prompt and a sequence, from which the fit begins.
_START = (10.0, 100.0, 100.0, 20.0)


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
    now = clock(threads)
    kind, size = getattr(torch, dtype), DTYPE_BYTES[dtype]
    measured, flops_per_s = operations.measure(kind, now)
    bandwidth = size / measured.product_seconds[0][-1]
    bare = Efficiency(
        matrix=1.0, memory=1.0, launch_seconds=0.0, spread=0.0, source="measured here"
    )
    rates = Rates(flops_per_s, bandwidth, threads, bare, measured)
    efficiency, wrong = _fit_host(rates, dtype, size, now)
    wrong += operations.errors(measured, kind, now)
    # A busy machine shows more in the operations themselves than stacks add elsewhere.
    spread = max(float(np.sqrt(np.mean(np.square(wrong)))), stacks_spread())
    return Local(
        flops_per_s=flops_per_s,
        bandwidth=bandwidth,
        measured=measured,
        efficiency=efficiency.model_copy(update={"spread": spread}),
    )


def _fit_host(
    rates: Rates, dtype: DTypeName, size: int, now: Clock
) -> tuple[Efficiency, list[float]]:
    """Seconds of a launch, a step, prompts and a sequence in it, from engines that compute nothing.

    Also how far each of those engines' steps is from what comes of it, as logarithms.
    """
    engines = [_Tiny(layers, batch, dtype) for layers in _LAYERS for batch in _BATCHES]
    for _ in range(_PASSES):
        for engine in engines:
            engine.run(now)
    steps = [(engine, *step) for engine in engines for step in engine.steps()]
    taken = [seconds for *_, seconds in steps]
    width = _TINY.heads * _TINY.head_dim

    def shares(values: Sequence[float]) -> Efficiency:
        names = ("launch_seconds", "step_seconds", "prompt_seconds", "sequence_seconds")
        seconds = (float(value) * 1e-6 for value in values)
        return rates.efficiency.model_copy(update=dict(zip(names, seconds, strict=True)))

    def errors(values: Sequence[float]) -> list[float]:
        tried = Rates(
            rates.flops_per_s, rates.bandwidth, rates.multiprocessors, shares(values),
            rates.measured,
        )  # fmt: skip
        guessed = [
            float(forward(work, tried, size, engine.batch, 1.0, queries, width).seconds)
            for engine, work, queries, _ in steps
        ]
        found: list[float] = log_errors(np.array(guessed), np.array(taken)).tolist()
        return found

    best = minimise(lambda values: float(np.abs(errors(values)).mean()), _START)
    return shares(best), errors(best)


class _Tiny:
    """An engine that computes next to nothing, and what its steps took."""

    def __init__(self, layers: int, batch: int, dtype: DTypeName) -> None:
        self.batch = batch
        source = ModelSource("calibration", "random", replace(_TINY, layers=layers))
        spec = stack.parse("mha")
        self._plan = stack.resolve(
            spec, source, dtype=dtype, backend="torch", slots=batch, max_tokens=_PROMPT + _NEW
        )
        self._parts = stack.techniques(spec)
        self._engine = build(self._plan, source)
        self._submitted = 0
        self._prefills: list[int] = []
        self._decodes: list[int] = []

    def run(self, now: Clock) -> None:
        """Some batches, from prompt to end."""
        for _ in range(_REPETITIONS):
            for _ in range(self.batch):
                self._engine.submit(Request(self._submitted, tuple(range(1, 1 + _PROMPT)), _NEW))
                self._submitted += 1
            taken: list[int] = []
            while self._engine.has_work:
                start = now()
                self._engine.step()
                taken.append(now() - start)
            self._prefills.append(taken[0])
            self._decodes += taken[1:]

    def steps(self) -> Iterator[tuple[Cost, int, float]]:
        """Work, queries and median seconds of a decode step and of a prompt's."""
        half = BatchShape(self.batch, 1, _PROMPT + _NEW // 2)
        prompt = BatchShape(self.batch, _PROMPT, 0)
        for shape, taken in ((half, self._decodes), (prompt, self._prefills)):
            work = fold(self._plan, self._parts, shape)
            yield work, shape.queries, float(np.median(taken)) * 1e-9
