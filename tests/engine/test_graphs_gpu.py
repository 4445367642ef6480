"""Captured decode steps on a device: the same tokens as without, by the same kernels."""

from __future__ import annotations

import pytest

from harness import stack
from harness.engine.build import build
from harness.engine.capture import Capture, in_graph
from harness.engine.request import Request
from harness.model import source

pytestmark = pytest.mark.gpu


def generate(text: str, capture: Capture | None) -> dict[int, list[int]]:
    parsed, found = stack.parse(text), source.find("tiny", ["gqa"])
    plan = stack.resolve(parsed, found, dtype="float32", backend="triton", slots=6, max_tokens=64)
    engine = build(plan, found, device="cuda", capture=capture)
    tokens: dict[int, list[int]] = {}
    for i in range(5):
        engine.submit(Request(i, tuple(range(1, 4 + 5 * i)), 6 + 3 * i))
        tokens[i] = []
    while engine.has_work:
        for emission in engine.step():
            tokens[emission.request_id].extend(emission.token_ids)
    assert capture is None or engine.counters()["graph_steps"] > 10
    return tokens


@pytest.mark.parametrize("text", ["gqa", "gqa+continuous", "gqa+paged(block=16)+continuous"])
def test_tokens_are_the_same_with_and_without(text: str) -> None:
    assert generate(text, in_graph) == generate(text, None)
