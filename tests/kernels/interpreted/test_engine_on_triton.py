"""The whole engine on backend "triton", by Triton's interpreter."""

from __future__ import annotations

import pytest

from harness import stack
from harness.engine.build import build
from harness.engine.request import Request
from harness.model import source


def generate(backend: str) -> tuple[dict[int, list[int]], dict[str, str]]:
    """Greedy tokens of three ragged requests by request, and which kernels ran."""
    parsed, found = stack.parse("gqa"), source.find("tiny", ["gqa"])
    plan = stack.resolve(parsed, found, dtype="float32", backend=backend, slots=3, max_tokens=16)
    engine = build(plan, found)
    for i in range(3):
        engine.submit(Request(i, tuple(range(1, 4 + 3 * i)), 4))
    tokens: dict[int, list[int]] = {0: [], 1: [], 2: []}
    while engine.has_work:
        for emission in engine.step():
            tokens[emission.request_id].extend(emission.token_ids)
    return tokens, dict(engine.implementations)


@pytest.mark.usefixtures("poisoned")
def test_both_backends_give_the_same_tokens() -> None:
    (by_torch, on_torch), (by_triton, on_triton) = generate("torch"), generate("triton")
    assert on_torch["decode_attention"] == "torch"
    assert on_triton["decode_attention"] == "triton"
    assert by_triton == by_torch
    assert all(len(tokens) == 4 for tokens in by_triton.values())
