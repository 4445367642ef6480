"""Samples of calls: in turns, on sets of inputs in turn, replayed where that can be captured."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.engine.capture import Captured
from harness.measure.calls import GraphCalls, HostCalls, in_turns, poison
from harness.measure.clock import Clock


class Named:
    """Calls that tell when they were sampled."""

    how, count, last = "calls", 1, 0

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log
        self.turns: list[int | None] = []

    def sample(self, turn: int | None = None) -> float:
        self.log.append(self.name)
        self.turns.append(turn)
        return float(ord(self.name))

    def again(self) -> Any:
        return None


def test_who_goes_first_turns_round_and_each_keeps_its_place() -> None:
    log: list[str] = []
    sampled = [Named(name, log) for name in "ab"]
    times = [in_turns(sampled, number) for number in range(4)]
    assert "".join(log) == "abbaabba"
    assert sampled[0].turns == sampled[1].turns == [0, 1, 2, 3], "both on the same inputs"
    assert times == [[97.0, 98.0]] * 4


def test_a_host_sample_is_many_calls_on_inputs_in_turn() -> None:
    seen: list[int] = []
    calls = HostCalls([partial(seen.append, number) for number in range(3)], Clock())
    seen.clear()
    assert calls.sample() > 0
    assert len(seen) == calls.count > 1
    assert {(b - a) % 3 for a, b in pairwise(seen)} == {1}
    assert seen[-1] == calls.last
    seen.clear()
    calls.sample(turn=5)
    assert seen[0] == 5 % 3


def recorder(work: Callable[[], Any]) -> Captured:
    """Replays by running the work again into the memory that the first run left."""
    output = work()

    def replay() -> None:
        output.copy_(work())

    return Captured(replay, output)


def doubled(x: Tensor) -> Tensor:
    return 2 * x


def timer(log: list[Callable[[], None]]) -> Callable[[Callable[[], None]], float]:
    def elapsed_ns(run: Callable[[], None]) -> float:
        run()
        log.append(run)
        return 1000.0 * 4

    return elapsed_ns


def test_short_calls_are_repeated_inside_the_graph_and_time_is_a_call_s() -> None:
    inputs = [torch.full((3,), float(n)) for n in range(4)]
    calls = GraphCalls([partial(doubled, x) for x in inputs], timer([]), recorder)
    assert calls.how == "graph"
    # 4 us a pass: 250 of them make a millisecond, 1,000 calls at most.
    assert calls.count == 1000
    assert calls.sample() == 4.0
    inputs[3].fill_(7.0)
    assert calls.again().tolist() == [14.0] * 3, "the graph's own output, written anew"


def test_a_graph_that_lost_its_launches_is_caught_by_its_own_output() -> None:
    """Launches on a stream of their own escape a capture: replaying then leaves stale outputs."""

    def lost(work: Callable[[], Any]) -> Captured:
        return Captured(lambda: None, work())

    calls = GraphCalls([partial(doubled, torch.ones(3))], timer([]), lost)
    assert calls.again().isnan().all()


def test_what_cannot_be_captured_is_launched_and_says_so() -> None:
    def refusing(work: Callable[[], Any]) -> Captured:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    calls = GraphCalls([partial(doubled, torch.ones(3))], timer([]), refusing)
    assert calls.how == "launched: operation not permitted when stream is capturing"
    assert calls.sample() > 0
    assert calls.again().tolist() == [2.0] * 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32], ids=str)
def test_outputs_are_poisoned_but_not_where_they_are_inputs(dtype: torch.dtype) -> None:
    own, given = torch.ones(2, dtype=dtype), torch.ones(2, dtype=dtype)
    poison((own, given[:1]), [given, 3])
    assert (own != 1).all()
    assert given.tolist() == [1, 1]
