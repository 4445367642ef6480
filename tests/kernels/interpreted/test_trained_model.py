"""The small trained model from prompt to tokens on backend "triton", by Triton's interpreter."""

from __future__ import annotations

import random

import pytest
import torch

from harness import stack
from harness.engine.build import assemble
from harness.engine.request import Request, Sampling
from harness.gates.reference import judge
from harness.gates.regret import check_regret
from harness.model import source, weights

STACK = stack.parse("gqa+paged")
# Longer than what decode_attention takes at once, and shorter.
PROMPTS = [[random.Random(length).randrange(1024) for _ in range(length)] for length in (19, 5)]
NEW = 4
SAMPLED = Sampling(temperature=0.9, top_k=50, top_p=0.95, seed=3)


@pytest.fixture(scope="module")
def generated() -> dict[str, dict[int, list[int]]]:
    """Tokens by backend and request: each prompt greedily, and the last one sampled too."""
    found = source.find("zoo/small-gqa", ["gqa"])
    tokens: dict[str, dict[int, list[int]]] = {}
    for backend in ("torch", "triton"):
        plan = stack.resolve(STACK, found, dtype="float32", backend=backend, slots=3, max_tokens=32)
        engine = assemble(plan, weights.load(found, plan.shape, torch.float32, "cpu", 0))
        for i, prompt in enumerate(PROMPTS):
            engine.submit(Request(i, tuple(prompt), NEW))
        engine.submit(Request(len(PROMPTS), tuple(PROMPTS[-1]), NEW, SAMPLED))
        tokens[backend] = {i: [] for i in range(len(PROMPTS) + 1)}
        while engine.has_work:
            for emission in engine.step():
                tokens[backend][emission.request_id].extend(emission.token_ids)
        ran = {engine.implementations[name] for name in ("decode_attention", "sample", "rms_norm")}
        assert ran == {backend}
    return tokens


def test_greedy_tokens_pass_the_regret_gate(generated: dict[str, dict[int, list[int]]]) -> None:
    found = source.find("zoo/small-gqa", ["gqa"])
    plan = stack.resolve(STACK, found, dtype="float32", backend="triton", slots=3, max_tokens=32)
    loaded = weights.load(found, plan.shape, torch.float32, "cpu", 0)
    for i, prompt in enumerate(PROMPTS):
        emitted = generated["triton"][i]
        assert len(emitted) == NEW
        right = judge(STACK, plan, loaded, prompt, emitted)
        gates = check_regret(right.exact, right.trusted, emitted, torch.float32, own=right.own)
        assert [gate.detail for gate in gates if not gate.passed] == []


def test_sampled_tokens_are_those_of_backend_torch(
    generated: dict[str, dict[int, list[int]]],
) -> None:
    """The noise is the same; a token is another one only where rounding decides."""
    last = len(PROMPTS)
    assert generated["triton"][last] == generated["torch"][last]
    assert generated["triton"][last] != generated["triton"][last - 1], "nothing was drawn"
