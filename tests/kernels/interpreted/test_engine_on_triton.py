"""The whole engine on backend "triton", by Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness import stack
from harness.engine.build import build
from harness.engine.capture import Capture, Captured
from harness.engine.request import Request
from harness.model import source


def generate(
    backend: str, slots: int = 3, capture: Capture | None = None
) -> tuple[dict[int, list[int]], dict[str, str]]:
    """Greedy tokens of three ragged requests by request, and which kernels ran."""
    parsed, found = stack.parse("gqa"), source.find("tiny", ["gqa"])
    plan = stack.resolve(
        parsed, found, dtype="float32", backend=backend, slots=slots, max_tokens=16
    )
    engine = build(plan, found, capture=capture)
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


def again(work: Callable[[], Any]) -> Captured:
    """Replays by working again on the same buffers."""
    output = work()

    def replay() -> None:
        output.copy_(work())

    return Captured(replay, output)


@pytest.mark.usefixtures("poisoned")
def test_static_steps_with_a_row_of_padding_give_the_same_tokens() -> None:
    """Three sequences in a bucket of four: one row holds nothing and writes nowhere."""
    assert generate("triton", slots=4, capture=again)[0] == generate("torch")[0]
