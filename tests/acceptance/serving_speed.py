"""What serving costs on the host: a step of the scheduler, and the block manager's verbs.

    python tests/acceptance/serving_speed.py

CPU time of one core, the best of several repetitions. Goals: a step of `continuous` over 256
running sequences under 200 microseconds; block tables above a million operations a second in the
mixture that decoding makes of them. Where a goal is missed its profile is printed and the exit code
is 1.
"""

from __future__ import annotations

import cProfile
import pstats
import random
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from harness.engine.request import Request, Sequence
from harness.engine.scheduler import View
from harness.engine.store import Store
from harness.plan import EnginePlan, Limits, Trait
from harness.shape import ModelShape, TokenState
from harness.techniques.autoregressive.decoder import Autoregressive
from harness.techniques.contiguous.store import ContiguousStore
from harness.techniques.continuous import Options
from harness.techniques.continuous.scheduler import Continuous
from harness.techniques.paged import Options as PagedOptions
from harness.techniques.paged.store import PagedStore
from harness.techniques.paged.tables import Tables

RUNNING = 256
PROMPT = 200
STEPS = 100
GOAL_US = 200.0
GOAL_OPS = 1e6
_GROUPS = [TokenState((("k", (1, 1)),), layers=(0,))]
_SHAPE = ModelShape(vocab=9, width=1, layers=1, heads=1, kv_heads=1, head_dim=1, ff=0)


class Decoding:
    """256 sequences that decode, with as much of an engine as changes what a scheduler sees."""

    def __init__(self, store: Any, plan: EnginePlan, options: Options) -> None:
        self.scheduler = Continuous(plan, options)
        self.view = View(deque(), [], Store(store, None), Autoregressive(None, plan))  # type: ignore[arg-type]
        for i in range(RUNNING):
            request = Request(i, tuple(range(PROMPT)), STEPS + 8)
            self.view.waiting.append(Sequence(request, [*request.prompt]))
        while self.view.waiting:
            self.take(self.scheduler.schedule(self.view))

    def take(self, runs: Any) -> None:
        """What the engine does with runs, without a forward."""
        store = self.view.store.tokens
        assert store is not None
        for run in runs:
            seq, length = run.sequence.id, store.length(run.sequence.id) + run.certain
            if isinstance(store, PagedStore):
                for tables in store._tables:
                    tables.advance(seq, length)
            else:
                store._length[seq] = length  # type: ignore[attr-defined]
            store.settle(seq)
            if length == len(run.sequence.tokens):
                run.sequence.tokens.append(0)

    def steps(self) -> list[float]:
        """CPU time of each step's scheduling in microseconds."""
        times = []
        for _ in range(STEPS):
            started = time.process_time_ns()
            runs = self.scheduler.schedule(self.view)
            times.append((time.process_time_ns() - started) / 1e3)
            assert len(runs) == RUNNING
            self.take(runs)
        return times


def decoding(cache: str) -> Decoding:
    limits = Limits(slots=RUNNING, max_tokens=PROMPT + STEPS + 16)
    traits = frozenset([Trait.INCREMENTAL, *([Trait.PAGED] if cache == "paged" else [])])
    plan = EnginePlan(_SHAPE, "float32", "torch", limits, traits=traits)
    given: dict[str, Any] = {"dtype": torch.float32, "device": "cpu"}
    if cache == "paged":
        store: Any = PagedStore(_GROUPS, limits, options=PagedOptions(), **given)
    else:
        store = ContiguousStore(_GROUPS, limits, **given)
    return Decoding(store, plan, Options(budget=100_000))


def schedule_cost() -> bool:
    """Print the median step of each cache; whether all are within the goal."""
    good = True
    for cache in ("contiguous", "paged"):
        median = min(sorted(decoding(cache).steps())[STEPS // 2] for _ in range(5))
        good = good and median < GOAL_US
        print(f"schedule, {RUNNING} running, {cache:11} {median:7.1f} us a step")
        if median >= GOAL_US:
            _profile(decoding(cache).steps)
    return good


def block_cost() -> bool:
    """Print how many operations a second tables make; whether it is within the goal."""
    draw = random.Random(1)
    lengths = [(draw.randrange(50, 2000), draw.randrange(20, 500)) for _ in range(400)]

    def mixture(tables: Tables) -> int:
        """Requests come, decode in batches of 64 and leave: what an engine asks of tables."""
        operations, waiting, name = 0, [*lengths], 0
        live: dict[int, list[int]] = {}
        reserve, advance, settle = tables.reserve, tables.advance, tables.settle
        while waiting or live:
            while waiting and len(live) < 64:
                prompt, new = waiting.pop()
                reserve(name, prompt)
                advance(name, prompt)
                settle(name)
                live[name] = [prompt, new]
                name += 1
                operations += 3
            done = []
            for seq, state in live.items():
                reserve(seq, 1)
                state[0] += 1
                state[1] -= 1
                advance(seq, state[0])
                settle(seq)
                if not state[1]:
                    done.append(seq)
            operations += 3 * len(live)
            for seq in done:
                tables.free(seq)
                del live[seq]
            operations += len(done)
        return operations

    def churn(tables: Tables) -> int:
        """The most expensive verbs alone: a sequence of 512 tokens comes, forks, and both go."""
        for seq in range(0, 2000, 2):
            tables.reserve(seq, 512)
            tables.advance(seq, 512)
            tables.fork(seq, seq + 1)
            tables.free(seq)
            tables.free(seq + 1)
        return 5000

    best = max(_rate(mixture, Tables(20_000, 16)) for _ in range(5))
    print(f"block tables, decoding's mixture    {best / 1e6:6.2f} M operations/s")
    blocks = max(_rate(churn, Tables(20_000, 16)) for _ in range(5))
    moved = blocks / 5 * 32 * 2
    print(f"block tables, 512 tokens come, fork and go: {blocks / 1e3:6.0f} k operations/s, "
          f"{moved / 1e6:.1f} M blocks taken or given back a second")  # fmt: skip
    if best < GOAL_OPS:
        _profile(lambda: mixture(Tables(20_000, 16)))
    return best >= GOAL_OPS


def _rate(work: Callable[[Tables], int], tables: Tables) -> float:
    started = time.process_time()
    operations = work(tables)
    return operations / (time.process_time() - started)


def _profile(work: Callable[[], Any]) -> None:
    profile = cProfile.Profile()
    profile.runcall(work)
    pstats.Stats(profile).sort_stats("tottime").print_stats(12)


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(0 if all([schedule_cost(), block_cost()]) else 1)
