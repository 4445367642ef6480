"""The gate of a kernel: each way to be wrong that plain memory would hide is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from harness import registry
from harness.gates import kernel as gate
from harness.gates.kernel import FENCE_BYTES, Fences, complaints
from harness.technique import load

SPEC = registry.kernel("linear")
SHAPE = SPEC.shapes["test"][1]


def said(candidate: Callable[..., Any]) -> list[str]:
    return complaints(SPEC, SHAPE, torch.float32, candidate)


def right(x: Tensor, w: Tensor) -> Tensor:
    return torch.mm(x, w, out=torch.empty(x.shape[0], w.shape[1]))


def beyond(tensor: Tensor, count: int) -> Tensor:
    """A view of what lies behind a tensor's numbers."""
    end = tensor.storage_offset() + tensor.numel()
    return tensor.as_strided((count,), (1,), end)


def reads_beyond(x: Tensor, w: Tensor) -> Tensor:
    return right(x, w) + 0 * beyond(w, 1)


def writes_beyond(x: Tensor, w: Tensor) -> Tensor:
    out = right(x, w)
    beyond(out, 1).fill_(1.0)
    return out


def writes_to_an_input(x: Tensor, w: Tensor) -> Tensor:
    out = right(x, w)
    x[0, 0] += 1
    return out


@pytest.mark.parametrize("candidate", [right, load(SPEC.eager)])
def test_what_is_right_passes(candidate: Callable[..., Any]) -> None:
    assert said(candidate) == []


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (lambda x, w: right(x, w) * 1.001, "output 0: numeric_max"),
        (lambda x, w: torch.empty(x.shape[0], w.shape[1]), "output 0: numeric_max"),
        (lambda x, w: (right(x, w), x), "2 outputs, the reference has 1"),
        (reads_beyond, "output 0: numeric_max"),
        (writes_beyond, "memory beside a tensor was written to"),
        (writes_to_an_input, "input x was changed"),
    ],
)
def test_what_is_wrong_is_told(candidate: Callable[..., Any], words: str) -> None:
    assert any(words in text for text in said(candidate))


def test_whole_numbers_must_be_the_references(monkeypatch: pytest.MonkeyPatch) -> None:
    def largest(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).argmax(-1)

    found = {SPEC.inputs: load(SPEC.inputs), SPEC.reference: largest}
    monkeypatch.setattr(gate, "load", lambda target: found[target])
    assert said(largest) == []
    wrong = ["output 0: numeric_whole: 3.0 > 0.0 3 of 3 numbers differ"]
    assert said(lambda x, w: (x @ w).argmin(-1)) == wrong
    assert "torch.int32" in said(lambda x, w: (x @ w).argmax(-1).int())[0]


class Inputs(NamedTuple):
    x: Tensor
    same: Tensor
    number: float


def test_views_of_one_memory_stay_views_of_one_memory() -> None:
    base = torch.arange(24.0).view(4, 6)
    fenced = Fences().around(Inputs(base[:, 1:3], base[2:], 0.5))
    assert torch.equal(fenced.x, base[:, 1:3])
    assert fenced.x.stride() == (6, 1)
    fenced.x[3, 0] = -1.0
    assert fenced.same[1, 1] == -1.0
    assert base[3, 1] == 19.0
    assert fenced.number == 0.5
    assert fenced.x.untyped_storage().nbytes() == 24 * 4 + 2 * FENCE_BYTES
    assert beyond(fenced.same, 1).isnan().all()
