"""What the engine's tests share: a small random model, toy techniques, and independent answers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from harness import registry
from harness import stack as stacks
from harness.engine.build import build
from harness.engine.engine import Engine
from harness.engine.request import Emission, Request
from harness.gates import reference
from harness.model import weights
from harness.model.source import ModelSource
from harness.plan import EnginePlan
from harness.shape import ModelShape
from harness.technique import load

PLUGINS = Path(__file__).parent / "plugins"
SOURCE = ModelSource(
    name="random",
    kind="random",
    shape=ModelShape(
        vocab=61, width=32, layers=2, heads=4, kv_heads=4, head_dim=8, ff=48, max_len=256
    ),
)
SEED = 3


class Bench:
    """Builds engines of stacks on one small model, and knows what they must answer."""

    source = SOURCE

    def plan(
        self,
        stack: str | Mapping[str, Any],
        slots: int = 4,
        max_tokens: int = 32,
        source: ModelSource = SOURCE,
    ) -> EnginePlan:
        return stacks.resolve(
            stacks.parse(stack),
            source,
            dtype="float32",
            backend="torch",
            slots=slots,
            max_tokens=max_tokens,
        )

    def engine(
        self,
        stack: str | Mapping[str, Any],
        slots: int = 4,
        max_tokens: int = 32,
        source: ModelSource = SOURCE,
    ) -> Engine:
        engine = build(self.plan(stack, slots, max_tokens, source), source, seed=SEED)
        assert isinstance(engine, Engine)
        return engine

    def weights(self, plan: EnginePlan, source: ModelSource = SOURCE) -> dict[str, torch.Tensor]:
        """What `engine` loads."""
        return weights.load(source, plan.shape, torch.float32, "cpu", SEED)

    def logits(self, stack: str | Mapping[str, Any], tokens: Sequence[int]) -> torch.Tensor:
        """The stack's reference in float64, [T, V]."""
        plan = self.plan(stack)
        return reference.logits(
            stacks.parse(stack), plan, self.weights(plan), torch.tensor(tokens), torch.float64
        )

    def truth(
        self, stack: str | Mapping[str, Any], prompts: Sequence[Sequence[int]], news: Sequence[int]
    ) -> list[list[int]]:
        """Greedy new tokens of each prompt, without an engine and without a cache."""
        generate = load("harness.techniques.autoregressive.reference:generate")

        def last(tokens: list[int]) -> torch.Tensor:
            return self.logits(stack, tokens)[-1]

        return [
            generate(last, list(prompt), new) for prompt, new in zip(prompts, news, strict=True)
        ]

    def run(
        self, engine: Engine, requests: Sequence[Request], most_steps: int = 1000
    ) -> list[list[Emission]]:
        """Emissions of every step until nothing is left to do; a loop that never ends fails."""
        for request in requests:
            engine.submit(request)
        steps: list[list[Emission]] = []
        while engine.has_work:
            steps.append(engine.step())
            assert len(steps) < most_steps, "the engine never ends"
        return steps

    def tokens(self, engine: Engine, requests: Sequence[Request]) -> dict[int, list[int]]:
        """New tokens of each request. A request finishes once, and nothing follows."""
        found: dict[int, list[int]] = {request.id: [] for request in requests}
        finished: set[int] = set()
        for emission in (e for step in self.run(engine, requests) for e in step):
            assert emission.request_id not in finished
            found[emission.request_id] += emission.token_ids
            if emission.finished:
                finished.add(emission.request_id)
        assert finished == set(found)
        return found


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """A bench with the toy techniques in reach; afterwards the registry is as it was."""
    before = list(sys.meta_path)
    registry.install([PLUGINS])
    yield Bench()
    sys.meta_path[:] = before
