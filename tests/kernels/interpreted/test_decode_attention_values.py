"""decode_attention's Triton kernels on every test shape, by Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import torch

from harness import registry
from harness.errors import UnfitError
from harness.kernels.decode_attention.inputs import STALE, Inputs
from harness.kernels.decode_attention.kernel import choose_splits, decode_attention

SPEC = registry.kernel("decode_attention")
SHAPES = SPEC.shapes["test"]
LONG = next(shape for shape in SHAPES if shape["S"] == 300)
PAGED = next(shape for shape in SHAPES if shape["block"] == 16 and shape["ragged"])

pytestmark = pytest.mark.usefixtures("poisoned")


@pytest.mark.parametrize("splits", [None, 3], ids=["auto", "3parts"])
@pytest.mark.parametrize("shape", SHAPES)
def test_float32_against_float64(
    shape: Mapping[str, int],
    splits: int | None,
    draw: Callable[..., Any],
    complaints: Callable[..., list[str]],
) -> None:
    inputs = draw(SPEC, shape, torch.float32)
    assert complaints(SPEC, inputs, partial(decode_attention, splits=splits)) == []


@pytest.mark.parametrize("shape", SHAPES)
def test_float16(
    shape: Mapping[str, int], draw: Callable[..., Any], complaints: Callable[..., list[str]]
) -> None:
    assert complaints(SPEC, draw(SPEC, shape, torch.float16), decode_attention) == []


@pytest.mark.parametrize("splits", [1, 19, 40])
def test_one_part_and_more_parts_than_are_merged_at_once(
    splits: int, draw: Callable[..., Any], complaints: Callable[..., list[str]]
) -> None:
    inputs = draw(SPEC, LONG, torch.float32)
    assert complaints(SPEC, inputs, partial(decode_attention, splits=splits)) == []


@pytest.mark.parametrize("splits", [1, 2])
def test_sequences_of_no_tokens_give_zeros(splits: int, draw: Callable[..., Any]) -> None:
    inputs = draw(SPEC, PAGED, torch.float32)
    empty = inputs._replace(lens=torch.zeros_like(inputs.lens))
    assert torch.equal(decode_attention(*empty, splits=splits), torch.zeros_like(inputs.q))


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape["ragged"]])
def test_nothing_beyond_a_sequence_is_touched(
    shape: Mapping[str, int], draw: Callable[..., Any]
) -> None:
    """NaN in unseen slots and page numbers that do not exist: neither changes a bit."""
    inputs: Inputs = draw(SPEC, shape, torch.float32)
    expected = decode_attention(*inputs)
    k, v = (pool.clone() for pool in (inputs.k, inputs.v))
    for pool in (k, v):
        pool[pool == STALE] = float("nan")
    table = inputs.table.clone()
    block = k.shape[2]
    for b, length in enumerate(inputs.lens.tolist()):
        table[b, -(-length // block) :] = 2**30
    spoiled = inputs._replace(k=k, v=v, table=table)
    assert torch.equal(decode_attention(*spoiled), expected)


def test_rows_do_not_depend_on_their_neighbours(draw: Callable[..., Any]) -> None:
    inputs: Inputs = draw(SPEC, PAGED, torch.float32)
    together = decode_attention(*inputs, splits=2)
    for b in range(PAGED["B"]):
        one = slice(b, b + 1)
        alone = inputs._replace(q=inputs.q[one], table=inputs.table[one], lens=inputs.lens[one])
        assert torch.equal(decode_attention(*alone, splits=2), together[one])


def test_inputs_are_left_alone(draw: Callable[..., Any]) -> None:
    inputs: Inputs = draw(SPEC, PAGED, torch.float32)
    copies = [tensor.clone() for tensor in inputs[:5]]
    decode_attention(*inputs)
    assert all(torch.equal(tensor, copy) for tensor, copy in zip(inputs[:5], copies, strict=True))


def test_large_scores_do_not_overflow(
    draw: Callable[..., Any], complaints: Callable[..., list[str]]
) -> None:
    inputs: Inputs = draw(SPEC, PAGED, torch.float32)
    assert complaints(SPEC, inputs._replace(q=inputs.q * 1000), decode_attention) == []


def test_bfloat16_is_refused_with_the_reason(draw: Callable[..., Any]) -> None:
    """The interpreter computes it wrongly without saying so."""
    with pytest.raises(UnfitError, match="interpreter computes bfloat16 wrongly"):
        decode_attention(*draw(SPEC, PAGED, torch.bfloat16))


def test_float64_is_refused(draw: Callable[..., Any]) -> None:
    with pytest.raises(UnfitError, match=r"no kernel for torch\.float64; known: float16"):
        decode_attention(*draw(SPEC, PAGED, torch.float64))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda i: {"q": i.q[0]}, r"q must be \[B, N, H\]"),
        (lambda i: {"v": i.v[:, :, :-1]}, r"k and v \[P, K, block, H\]"),
        (lambda i: {"q": i.q[:, :, :-1].contiguous()}, r"k and v \[P, K, block, H\]"),
        (lambda i: {"lens": i.lens[:-1]}, r"lens \[B\]"),
        (lambda i: {"table": i.table[:-1]}, r"table must be \[B, pages\]"),
        (lambda i: {"q": i.q[:, :-1].contiguous()}, "multiple of the key/value heads"),
        (lambda i: {"k": i.k.half()}, "one dtype"),
        (lambda i: {"lens": i.lens.long()}, "must be int32"),
        (lambda i: {"table": i.table.long()}, "must be int32"),
        (lambda i: {"v": i.v.mT.contiguous().mT}, "last dimension must have stride 1"),
        (lambda i: {"lens": i.lens.repeat(2)[::2]}, "last dimension must have stride 1"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_with_their_shapes(
    change: Callable[[Inputs], dict[str, Any]], sentence: str, draw: Callable[..., Any]
) -> None:
    inputs: Inputs = draw(SPEC, PAGED, torch.float32)
    with pytest.raises(ValueError, match=sentence) as caught:
        decode_attention(*inputs._replace(**change(inputs)))
    assert "got q (" in str(caught.value)


def test_splits_follow_the_device_and_the_length() -> None:
    full = 132 * 2
    assert choose_splits(programs=full, max_len=8192, multiprocessors=132) == 1
    assert choose_splits(programs=8, max_len=8192, multiprocessors=132) > 24
    assert choose_splits(programs=8, max_len=8192, multiprocessors=16) == 4
    assert choose_splits(programs=8, max_len=100, multiprocessors=132) == 1
    assert choose_splits(programs=1, max_len=10**6, multiprocessors=132) > 48
    # One program more than fits: a second wave for it alone would double the time.
    assert choose_splits(programs=full + 1, max_len=8192, multiprocessors=132) > 1
