"""decode_attention by Triton's interpreter: what its own contract adds to the gate on all kernels.

The numbers at every shape of the spec are held in `test_gates.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import torch

from harness import registry
from harness.errors import UnfitError
from harness.kernels.decode_attention.grid import plan
from harness.kernels.decode_attention.inputs import STALE, Inputs
from harness.kernels.decode_attention.kernel import decode_attention
from harness.kernels.prefill_attention.lengths import Lengths

SPEC = registry.kernel("decode_attention")
SHAPES = SPEC.shapes["test"]
LONG = next(shape for shape in SHAPES if shape["S"] == 600)
PAGED = next(shape for shape in SHAPES if shape["block"] == 16 and shape["ragged"])
DRAFTS = next(shape for shape in SHAPES if shape["mask"] and shape["ragged"])
WINDOW = next(shape for shape in SHAPES if shape["window"] and not shape["draft"])

pytestmark = pytest.mark.usefixtures("poisoned")


def known(inputs: Inputs) -> Lengths:
    return Lengths.read(inputs.cu_seqlens, inputs.lens)


@pytest.mark.parametrize("splits", [1, 19, 40])
def test_one_part_and_more_parts_than_are_merged_at_once(
    splits: int, draw: Callable[..., Any], complaints: Callable[..., list[str]]
) -> None:
    inputs = draw(SPEC, LONG, torch.float32)
    assert complaints(SPEC, inputs, partial(decode_attention, splits=splits)) == []


@pytest.mark.parametrize("shape", [PAGED, DRAFTS, WINDOW])
def test_what_the_host_knows_changes_the_grid_and_not_the_values(
    shape: Mapping[str, int], draw: Callable[..., Any], complaints: Callable[..., list[str]]
) -> None:
    inputs = draw(SPEC, shape, torch.float32)
    call = partial(decode_attention, lengths=known(inputs))
    assert complaints(SPEC, inputs, call) == []


@pytest.mark.parametrize("splits", [1, 2])
def test_sequences_of_no_tokens_give_zeros(splits: int, draw: Callable[..., Any]) -> None:
    inputs = draw(SPEC, PAGED, torch.float32)
    empty = inputs._replace(lens=torch.zeros_like(inputs.lens))
    assert torch.equal(decode_attention(*empty, splits=splits), torch.zeros_like(inputs.q))


@pytest.mark.parametrize("shape", [PAGED, DRAFTS, WINDOW])
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
        # Its share is cut as the longest of the batch is: as many parts, or fewer.
        difference = decode_attention(*alone, splits=2)[0] - together[b]
        assert difference.abs().max() <= 4 * torch.finfo(torch.float32).eps


def test_large_scores_do_not_overflow(
    draw: Callable[..., Any], complaints: Callable[..., list[str]]
) -> None:
    inputs: Inputs = draw(SPEC, PAGED, torch.float32)
    assert complaints(SPEC, inputs._replace(q=inputs.q * 1000), decode_attention) == []


def test_float64_is_refused(draw: Callable[..., Any]) -> None:
    with pytest.raises(UnfitError, match=r"no kernel for torch\.float64; known: float16"):
        decode_attention(*draw(SPEC, PAGED, torch.float64))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda i: {"q": i.q[0]}, r"q must be \[T, N, H\]"),
        (lambda i: {"v": i.v[:, :, :-1]}, r"k and v \[P, K, block, H\]"),
        (lambda i: {"q": i.q[:, :, :-1].contiguous()}, r"k and v \[P, K, block, H\]"),
        (lambda i: {"lens": i.lens[:-1]}, r"lens \[B\]"),
        (lambda i: {"table": i.table[:-1]}, r"table must be \[B, pages\]"),
        (lambda i: {"q": i.q[:, :-1].contiguous()}, "multiple of the key/value heads"),
        (lambda i: {"k": i.k.half()}, "dtype of q"),
        (lambda i: {"k": i.k.char(), "v": i.v.char()}, "k_scale and v_scale"),
        (lambda i: {"lens": i.lens.long()}, "must be int32"),
        (lambda i: {"table": i.table.long()}, "must be int32"),
        (lambda i: {"v": i.v.mT.contiguous().mT}, "last dimension must have stride 1"),
        (lambda i: {"lens": i.lens.repeat(2)[::2]}, "last dimension must have stride 1"),
        (lambda i: {"cu_seqlens": i.lens}, r"cu_seqlens must be \[B \+ 1\]"),
        (lambda i: {"mask": i.q[0]}, r"mask must be \[T, Q\]"),
        (lambda i: {"mask": i.q[:, 0].half()}, "must be float32"),
        (lambda i: {"positions": i.lens[:-1]}, r"positions must be \[T\]"),
        (lambda i: {"q": i.q.repeat(2, 1, 1)}, "one each without cu_seqlens"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_with_their_shapes(
    change: Callable[[Inputs], dict[str, Any]], sentence: str, draw: Callable[..., Any]
) -> None:
    inputs: Inputs = draw(SPEC, PAGED, torch.float32)
    with pytest.raises(ValueError, match=sentence):
        decode_attention(*inputs._replace(**change(inputs)))


def parts(longest: int, total: int, units: int, per_sequence: int = 8) -> int:
    return plan(per_sequence, longest, total, units, 256, exact=True)[0]


def test_splits_follow_the_device_and_the_lengths() -> None:
    full = 132 * 2
    assert parts(8192, full // 8 * 8192, units=132) == 1, "a batch that fills the device"
    assert parts(8192, 8192, units=132) > 24
    assert parts(8192, 8192, units=16) == 4
    assert parts(100, 100, units=132) == 1, "nothing to share out"
    assert parts(10**6, 10**6, units=132, per_sequence=1) > 48
    # A program more than fits: a second wave for it alone would double the time.
    assert parts(8192, (full + 1) * 8192, units=132, per_sequence=1) > 1
    # A long sequence among short ones gets more than it would among its equals.
    assert parts(100_000, 64 * 100_000, units=132) == 1
    assert parts(100_000, 100_000 + 63 * 1000, units=132) > 16


def test_without_lengths_the_grid_allows_for_one_long_sequence_and_stays_small() -> None:
    """The cliff of a fixed threshold: vllm#48076, sgl-project/sglang#27786."""
    splits, wanted = plan(8, 8192, 64 * 8192, 132, 256, exact=False)
    assert splits > 4
    assert 64 * 8 * splits <= 132 * 2 * 16
    assert wanted == 64 * 8, "work is still shared out as if all were alike"
    assert plan(8, 8192, 1024 * 8192, 132, 256, exact=False)[0] == 1
