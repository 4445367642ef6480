"""prefill_attention by Triton's interpreter: what its own contract adds to the gate on all kernels.

The numbers at every shape of the spec are held in `test_gates.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from harness import registry
from harness.errors import UnfitError
from harness.kernels.prefill_attention.inputs import STALE, Inputs
from harness.kernels.prefill_attention.kernel import prefill_attention

SPEC = registry.kernel("prefill_attention")
SHAPES = SPEC.shapes["test"]
CHUNK = next(shape for shape in SHAPES if shape["T"] == 9)
TREES = next(shape for shape in SHAPES if shape["mask"] and shape["window"])
WINDOW = next(shape for shape in SHAPES if shape["window"] and not shape["mask"])
RAGGED = next(shape for shape in SHAPES if shape["ragged"] and shape["block"] == 3)
TILE = 16

pytestmark = pytest.mark.usefixtures("poisoned")


@pytest.mark.parametrize("shape", [CHUNK, TREES, WINDOW])
def test_nothing_beyond_a_sequence_is_touched(
    shape: Mapping[str, int], draw: Callable[..., Any]
) -> None:
    """NaN in unseen slots and page numbers that do not exist: neither changes a bit."""
    inputs: Any = draw(SPEC, shape, torch.float32)
    expected = prefill_attention(*inputs)
    k, v = (pool.clone() for pool in (inputs.k, inputs.v))
    for pool in (k, v):
        pool[pool == STALE] = float("nan")
    table = inputs.table.clone()
    for b, length in enumerate(inputs.lens.tolist()):
        table[b, -(-length // k.shape[2]) :] = 2**30
    assert torch.equal(prefill_attention(*inputs._replace(k=k, v=v, table=table)), expected)


def prompt(length: int) -> Any:
    """One head's prompt on pages of TILE tokens, in order."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(length, 1, 32, generator=generator)
    k, v = torch.randn(2, length // TILE, 1, TILE, 32, generator=generator)
    table = torch.arange(length // TILE, dtype=torch.int32)[None]
    lens, bounds = (torch.tensor(each, dtype=torch.int32) for each in ([length], [0, length]))
    return Inputs(q, k, v, table, lens, 32**-0.5, bounds)


def test_tiles_that_no_row_sees_are_not_read() -> None:
    """Rows of a tile stay what they are when values that none of them may see are NaN.

    Read and masked, such a value would be multiplied by a weight of zero, which is NaN.
    """
    inputs = prompt(5 * TILE)
    for window in (0, 2 * TILE):
        expected = prefill_attention(*inputs._replace(window=window))
        for tile in range(5):
            v = inputs.v.clone()
            v[tile + 1 :] = float("nan")
            if window:
                # The tile's first row sees from `window` places back on, in part of a tile.
                v[: max(0, tile - window // TILE)] = float("nan")
            found = prefill_attention(*inputs._replace(v=v, window=window))
            rows = slice(tile * TILE, (tile + 1) * TILE)
            assert torch.equal(found[rows], expected[rows]), (window, tile)


def test_a_causal_block_as_long_as_all_shows_everything_to_everyone() -> None:
    inputs = prompt(3 * TILE)
    found = prefill_attention(*inputs._replace(causal_block=3 * TILE))
    keys, values = (pool[:, 0].flatten(0, 1) for pool in (inputs.k, inputs.v))
    wanted = torch.softmax(inputs.q[:, 0] @ keys.T * inputs.scale, -1) @ values
    torch.testing.assert_close(found[:, 0], wanted, atol=1e-5, rtol=1e-5)


def test_sequences_of_no_rows_and_of_no_tokens_leave_their_neighbours_alone(
    draw: Callable[..., Any],
) -> None:
    """Behind the last sequence, which is empty in every ragged shape, and before the first."""
    inputs: Any = draw(SPEC, RAGGED, torch.float32)
    expected = prefill_attention(*inputs)
    assert inputs.cu_seqlens is not None
    zero = torch.zeros(1, dtype=torch.int32)
    first = inputs._replace(
        table=torch.cat([inputs.table[:1], inputs.table]),
        lens=torch.cat([zero, inputs.lens]),
        cu_seqlens=torch.cat([zero, inputs.cu_seqlens]),
    )
    assert torch.equal(prefill_attention(*first), expected)


def test_no_rows_at_all(draw: Callable[..., Any]) -> None:
    inputs: Any = draw(SPEC, CHUNK, torch.float32)
    nothing = torch.zeros_like(inputs.cu_seqlens)
    empty = inputs._replace(q=inputs.q[:0], cu_seqlens=nothing)
    assert prefill_attention(*empty).shape == (0, *inputs.q.shape[1:])


def test_large_scores_do_not_overflow(
    draw: Callable[..., Any], complaints: Callable[..., list[str]]
) -> None:
    inputs: Any = draw(SPEC, CHUNK, torch.float32)
    assert complaints(SPEC, inputs._replace(q=inputs.q * 1000), prefill_attention) == []


def test_float64_is_refused(draw: Callable[..., Any]) -> None:
    with pytest.raises(UnfitError, match=r"no kernel for torch\.float64; known: float16"):
        prefill_attention(*draw(SPEC, CHUNK, torch.float64))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda i: {"q": i.q[0]}, r"q must be \[T, N, H\]"),
        (lambda i: {"v": i.v[:, :, :-1]}, r"k and v \[P, K, block, H\]"),
        (lambda i: {"table": i.table[:-1]}, r"table must be \[B, pages\]"),
        (lambda i: {"cu_seqlens": i.cu_seqlens[:-1]}, r"cu_seqlens must be \[B \+ 1\]"),
        (lambda i: {"cu_seqlens": i.cu_seqlens.long()}, "must be int32"),
        (lambda i: {"mask": i.mask[:-1]}, r"mask must be \[T, Q\]"),
        (lambda i: {"mask": i.mask.half()}, "must be float32"),
        (lambda i: {"positions": i.positions[:-1]}, r"positions must be \[T\]"),
        (lambda i: {"k_scale": i.k[..., 0]}, "k_scale and v_scale"),
        (lambda i: {"scale": 0.0}, "a scale above 0"),
        (lambda i: {"causal_block": 0}, "a causal_block of at least 1"),
    ],
)
def test_what_does_not_fit_is_refused_with_shapes_or_numbers(
    change: Callable[[Inputs], dict[str, Any]], sentence: str, draw: Callable[..., Any]
) -> None:
    inputs: Any = draw(SPEC, TREES, torch.float32)
    with pytest.raises((ValueError, UnfitError), match=sentence):
        prefill_attention(*inputs._replace(**change(inputs)))
