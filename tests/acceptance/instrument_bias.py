"""The instrument's own bias: the step latency it reports against bare calls on the same engine.

    python tests/acceptance/instrument_bias.py [MODEL] [BATCH] [wall|cpu]

Two engines with the same weights and prompts alternate step by step in one process: one is driven
by the instrument, the other is only called. The instrument's clock stands still while the other
engine has its turn. What disturbs the machine meets both sides alike; engines swap their parts and
their order between repetitions, since two equal engines differ in where their memory lies. Prints
both medians and their ratio with a 95 % interval over groups of four repetitions, and exits 1 when
it is further than 1 % from 1.
On a machine that others use too, `cpu` reads this process's CPU time: one thread's latency when
nobody takes the core away.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from harness import stack
from harness.analysis.intervals import geometric_mean
from harness.engine.build import build
from harness.engine.request import Emission, Request
from harness.measure.clock import Clock
from harness.measure.generate import drive
from harness.measure.latency import step_gaps
from harness.measure.prompts import PromptMaker, Prompts, Share
from harness.model import source as sources

BOUND = 0.01
GROUPS = 12
PROMPT_TOKENS, NEW_TOKENS = 64, 64


class Alternating:
    """The engine that the instrument sees; around each of its steps the other one takes one."""

    def __init__(self, engine: Any, other: Any, read: Callable[[], int], *, first: bool) -> None:
        self._engine, self._other, self._read = engine, other, read
        self._first = first  # whether the other one goes first
        self.bare_ns: list[int] = []
        self._away_ns = 0

    @property
    def has_work(self) -> bool:
        """The instrument's engine."""
        return bool(self._engine.has_work)

    def submit(self, request: Request) -> None:
        """To both."""
        self._engine.submit(request)
        self._other.submit(request)

    def reset(self) -> None:
        """Both."""
        self._engine.reset()
        self._other.reset()

    def step(self) -> list[Emission]:
        """The engine's own step, and the other's, timed by two readings of the clock."""
        if self._first:
            self._bare()
        emissions: list[Emission] = self._engine.step()
        if not self._first:
            self._bare()
        return emissions

    def _bare(self) -> None:
        start = self._read()
        self._other.step()
        end = self._read()
        self.bare_ns.append(end - start)
        self._away_ns += self._read() - start

    def now_ns(self) -> int:
        """The time without what the other engine took."""
        return self._read() - self._away_ns


def main(model: str = "zoo/small", batch: str = "1", clock: str = "wall") -> int:
    """Print the comparison; 1 when the bias is over the bound."""
    torch.set_num_threads(1)
    source = sources.find(model, ["mha"])
    plan = stack.resolve(
        stack.parse("mha"),
        source,
        dtype="float32",
        backend="torch",
        slots=int(batch),
        max_tokens=PROMPT_TOKENS + NEW_TOKENS,
    )
    read = {"wall": time.perf_counter_ns, "cpu": time.process_time_ns}[clock]
    engines = [build(plan, source), build(plan, source)]
    maker = PromptMaker(source.shape.vocab, PROMPT_TOKENS, Share("bias", 0, 1), None)

    def once(prompts: Prompts, part: int, *, first: bool) -> tuple[float, float]:
        pair = Alternating(engines[part], engines[1 - part], read, first=first)
        trace = drive(pair, prompts, NEW_TOKENS, Clock(pair.now_ns))
        # The first step is prefill on both sides; the gaps begin after it.
        return statistics.median(pair.bare_ns[1:]), statistics.median(step_gaps(trace))

    pairs, ratios = [], []
    for i in range(GROUPS + 1):
        four = [
            once(maker.batch(int(batch)), part, first=first)
            for part in (0, 1)
            for first in (False, True)
        ]
        if i:  # the first group warms up
            pairs += four
            ratios.append(statistics.geometric_mean(m / b for b, m in four))
    ratio = geometric_mean(ratios)
    bare, instrument = (statistics.median(side) / 1e3 for side in zip(*pairs, strict=True))
    print(
        f"{source.name}, batch {batch}, {4 * GROUPS} x {NEW_TOKENS} steps, 1 thread, {clock} time"
    )
    print(f"bare calls  {bare:10.1f} us a step")
    print(f"instrument  {instrument:10.1f} us a step")
    print(f"ratio       {ratio.value:10.4f}  95 % [{ratio.low:.4f}, {ratio.high:.4f}]")
    within = abs(ratio.value - 1) <= BOUND
    print("within 1 %" if within else "OVER 1 %")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
