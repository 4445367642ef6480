"""What the serving scripts share: one stack on one workload, by the real engine and driver.

Times are CPU time of this process on one thread, and waits are skipped: nothing but the stack's own
work is in them, whatever else the machine does.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from harness import stack as stacks
from harness.engine.build import build
from harness.measure import serving
from harness.measure.clock import Clock
from harness.measure.serve import Due, Served, serve
from harness.measure.serve_prompts import Texts, requests
from harness.model.source import find
from harness.suite.arrivals import arrivals, longest
from harness.suite.points import ServePoint
from harness.suite.slo import PRESETS, Slo

MODEL = "zoo/small"


@dataclass(frozen=True)
class Seen:
    """What one run gave."""

    stack: str
    served: Served
    values: dict[str, float | None]

    def ms(self, name: str) -> str:
        """A time in ms, for a column of 9."""
        value = self.values[name]
        return f"{'-':>9}" if value is None else f"{value / 1e6:9,.0f}"

    def number(self, name: str) -> float:
        """A metric that is defined."""
        value = self.values[name]
        assert value is not None, f"{name} of {self.stack} is undefined"
        return value

    @property
    def rows(self) -> int:
        """Tokens that were fed to the model, padding included."""
        return sum(step.counters["fed"] for step in self.served.steps)

    @property
    def busy_seconds(self) -> float:
        """Time of all steps."""
        return sum(step.end_ns - step.start_ns for step in self.served.steps) / 1e9


@contextmanager
def turn(lock: str | None) -> Iterator[None]:
    """Wait for a file's lock and hold it: scripts that share a machine take turns."""
    if lock is None:
        yield
        return
    with Path(lock).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run(
    stack: str,
    point: ServePoint,
    due: Sequence[Due] | None = None,
    *,
    slo: Slo = PRESETS["chat"],
    lock: str | None = None,
) -> Seen:
    """Serve a point, or these requests on its engine. `max_tokens` 1 stands for the longest."""
    torch.set_num_threads(1)
    spec = stacks.parse(stack)
    source = find(MODEL, [choice.technique for choice in spec.architecture])
    coming = arrivals(point)
    if point.max_tokens == 1:
        point = point.model_copy(update={"max_tokens": longest(coming)})
    plan = stacks.resolve(
        spec,
        source,
        dtype="float32",
        backend="torch",
        slots=point.slots,
        max_tokens=point.max_tokens,
        state_bytes=point.state_bytes,
    )
    engine = build(plan, source)
    if due is None:
        due = requests(point, coming, Texts(plan.shape.vocab, None, str(point.seed)), None)
    with turn(lock):
        served = serve(engine, due, Clock(time.process_time_ns), skip_idle=True)
    found = serving.metrics(served, point.slots, slo, plan.limits.lookahead)
    return Seen(stack, served, {metric.name: metric.value for metric in found})
