"""Calls of a kernel as samples of its time: between two stamps on a CPU, as one graph on a GPU.

Calls take turns on several sets of inputs, so that none finds its operands in a cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from harness.engine.capture import Capture, in_graph
from harness.kernel import outputs
from harness.measure.clock import Clock

# A sample is so many calls that reading the clock, some 50 ns, stays below a thousandth of it.
_HOST_NS = 100_000
_WARM_UP_SECONDS = 0.2
# The same of a graph: starting one takes some microseconds, half of which hide behind the flush.
_GRAPH_NS = 1_000_000
_MOST_CALLS = 1_000
_MIB = 1024**2

# A function and the inputs that it is called on.
Call = partial[Any]


class Calls(Protocol):
    """One implementation, ready to be sampled. `how` says what a sample is, for the record."""

    how: str
    count: int  # calls a sample

    @property
    def last(self) -> int:
        """Which set of inputs the last call of a sample is on."""
        ...

    def sample(self, turn: int | None = None) -> float:
        """Nanoseconds a call; from the inputs whose turn it is, or on from those used last."""
        ...

    def again(self) -> Any:
        """What the last call of a sample gives, made once more; for the gate after timing."""
        ...


class HostCalls:
    """Calls between two stamps of the run's clock."""

    how = "calls"

    def __init__(self, calls: Sequence[Call], clock: Clock) -> None:
        self._calls, self._clock, self._turn = calls, clock, 0
        best, begun = float("inf"), time.monotonic()
        while self._turn < 3 or time.monotonic() - begun < _WARM_UP_SECONDS:
            start = clock.stamp()
            self._next()
            best = min(best, max(1, clock.stamp() - start))
        self.count = max(1, round(_HOST_NS / best))

    @property
    def last(self) -> int:
        """Which inputs were called on last."""
        return (self._turn - 1) % len(self._calls)

    def sample(self, turn: int | None = None) -> float:
        """Nanoseconds a call."""
        self._turn = self._turn if turn is None else turn
        start = self._clock.stamp()
        for _ in range(self.count):
            self._next()
        return (self._clock.stamp() - start) / self.count

    def again(self) -> Any:
        """What the last call gives."""
        return self._calls[self.last]()

    def _next(self) -> None:
        self._calls[self._turn % len(self._calls)]()
        self._turn += 1


class GraphCalls:
    """Calls captured in one graph and replayed between events, behind a flush of the cache.

    Launches leave no gaps so, which for short kernels would be all that is timed. What cannot be
    captured is launched between the events instead, and `how` says so.
    """

    def __init__(
        self,
        calls: Sequence[Call],
        elapsed_ns: Callable[[Callable[[], None]], float],
        capture: Capture = in_graph,
    ) -> None:
        """`elapsed_ns(run)` is how long the device takes for what `run` starts."""
        self._calls, self._elapsed_ns, self._capture = calls, elapsed_ns, capture
        for call in calls:
            call()  # compiled and loaded before anything is captured
        self._run, self._output = self._made(1)
        self.count = len(calls)
        passes = round(_GRAPH_NS / max(1.0, self.sample() * self.count))
        passes = min(passes, _MOST_CALLS // self.count)
        if passes > 1:
            self._run, self._output = self._made(passes)
            self.count *= passes

    @property
    def last(self) -> int:
        """The last ones: each pass is over all."""
        return len(self._calls) - 1

    def sample(self, turn: int | None = None) -> float:
        """Nanoseconds a call; each sample begins with the first inputs, out of the cache."""
        del turn
        return self._elapsed_ns(self._run) / self.count

    def again(self) -> Any:
        """What the last call of the graph leaves in memory that was poisoned before."""
        if self._output is None:
            return self._calls[-1]()
        poison(self._output, self._calls[-1].args)
        self.sample()
        return self._output

    def _made(self, passes: int) -> tuple[Callable[[], None], Any]:
        """What makes so many passes over the calls, and where the last one's outputs lie."""

        def work() -> Any:
            returned = None
            for call in [*self._calls] * passes:
                returned = call()
            return returned

        try:
            captured = self._capture(work)
        except RuntimeError as error:
            self.how = f"launched: {str(error).splitlines()[0]}"
            return partial(_launch, work), None
        self.how = "graph"
        return captured


def _launch(work: Callable[[], Any]) -> None:
    work()


def poison(returned: Any, inputs: Sequence[Any]) -> None:
    """Fill outputs with NaN, or the largest integer, but for those that lie in an input."""
    given = {each.untyped_storage().data_ptr() for each in inputs if isinstance(each, Tensor)}
    for output in outputs(returned):
        if output.untyped_storage().data_ptr() not in given:
            floating = output.is_floating_point()
            output.fill_(torch.nan if floating else torch.iinfo(output.dtype).max)


def maker(device: str, clock: Clock) -> Callable[[Sequence[Call]], Calls]:
    """What makes samples of calls on a device, "cpu" or "cuda"."""
    if device == "cpu":
        return partial(HostCalls, clock=clock)
    size = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0) or 64 * _MIB
    junk = torch.empty(4 * size, dtype=torch.int8, device=device)

    def elapsed_ns(run: Callable[[], None]) -> float:
        # torch leaves its events untyped.
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        # Drives everything else out of the cache, and keeps the device busy while the host starts.
        junk.zero_()
        start.record()
        run()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e6

    return partial(GraphCalls, elapsed_ns=elapsed_ns)


def in_turns(sampled: Sequence[Calls], number: int) -> list[float]:
    """A sample of each in round `number`, first to last or last to first in turn (ABBA).

    All begin with the same inputs: one that trailed another would find its own in the cache in
    every round, whoever goes first (seen: 0.91 of the time of the very same function).
    """
    order = range(len(sampled)) if number % 2 == 0 else reversed(range(len(sampled)))
    turn = number * max((each.count for each in sampled), default=0)
    times = {place: sampled[place].sample(turn) for place in order}
    return [times[place] for place in range(len(sampled))]
