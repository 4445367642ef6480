"""The chunked scan against the recurrence, one token at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import hypothesis
import pytest
import torch
from hypothesis import strategies
from torch import Tensor

from harness.model.state_space import scan
from harness.model.state_space.sizes import CHUNK

Scan = Callable[[Tensor, Tensor, Tensor], Iterator[tuple[int, Tensor]]]
I, N = 3, 2  # noqa: E741 - the paper's letters


def _loop(decay: Tensor, entry: Tensor, start: Tensor) -> Tensor:
    states, h = [], start
    for a, b in zip(decay, entry, strict=True):
        h = a * h + b
        states.append(h)
    return torch.stack(states)


def _inputs(tokens: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    decay, entry = torch.rand(2, tokens, I, N, generator=generator, dtype=torch.float64)
    # Some decays underflow, some keep everything: neither may turn into a division by zero.
    decay[decay < 0.1] = 1e-300
    decay[decay > 0.9] = 1.0
    return decay, entry - 0.5, torch.randn(I, N, generator=generator, dtype=torch.float64)


def _split(found: Scan, decay: Tensor, entry: Tensor, start: Tensor, cuts: list[int]) -> Tensor:
    """The states of a sequence that is fed in pieces, each from the state before it."""
    pieces = []
    for first, end in zip([0, *cuts], [*cuts, len(decay)], strict=True):
        if first == end:
            continue
        states = [part for _, part in found(decay[first:end], entry[first:end], start)]
        pieces += states
        start = states[-1][-1]
    return torch.cat(pieces)


@hypothesis.given(strategies.data())
@hypothesis.settings(max_examples=60, deadline=None, derandomize=True, database=None)
def test_any_split_gives_the_recurrence(data: strategies.DataObject) -> None:
    tokens = data.draw(strategies.integers(1, 3 * CHUNK + 1))
    cuts = sorted(data.draw(strategies.lists(strategies.integers(0, tokens), max_size=4)))
    inputs = _inputs(tokens, data.draw(strategies.integers(0, 99)))
    torch.testing.assert_close(_split(scan.chunks, *inputs, cuts), _loop(*inputs))


def _without_last_state(
    decay: Tensor, entry: Tensor, start: Tensor
) -> Iterator[tuple[int, Tensor]]:
    """Every chunk begins from nothing."""
    for first in range(0, len(decay), CHUNK):
        at = slice(first, first + CHUNK)
        yield from scan.chunks(decay[at], entry[at], start if first == 0 else 0 * start)


def _decay_of_the_token_before(
    decay: Tensor, entry: Tensor, start: Tensor
) -> Iterator[tuple[int, Tensor]]:
    yield from scan.chunks(decay.roll(1, 0), entry, start)


@pytest.mark.parametrize("wrong", [_without_last_state, _decay_of_the_token_before])
def test_a_wrong_scan_is_told_apart(wrong: Scan) -> None:
    inputs = _inputs(2 * CHUNK + 5, 1)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(_split(wrong, *inputs, []), _loop(*inputs))
