"""Broken twins of decode_attention: each fault planted in its source must turn the gate red."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import torch

from harness import registry
from harness.kernels.decode_attention import kernel

SPEC = registry.kernel("decode_attention")
SOURCE = Path(kernel.__file__).read_text()


def _shape(S: int) -> Mapping[str, int]:
    return next(shape for shape in SPEC.shapes["test"] if shape["S"] == S)


# Where a fault shows: a shape, and a number of parts besides one.
RAGGED = (_shape(S=127), 2)
PAGED = (_shape(S=50), 2)  # strided, too
LARGE_PAGES = (_shape(S=250), 2)
WIDE_GROUP = (_shape(S=21), 2)
LONG = (_shape(S=300), 19)
ODD_TILES = (_shape(S=300), 2)
Trial = tuple[Mapping[str, int], int]

# name -> (where it shows, what stands in kernel.py exactly once, what the twin has instead)
TWINS: dict[str, tuple[Trial, str, str]] = {
    "head mapping interleaved": (RAGGED, "n = head * GROUP + row", "n = row * K + head"),
    "key head of the first group": (
        RAGGED,
        "head = (program // TILES) % K",
        "head = program // TILES * 0",
    ),
    "second tile of rows forgotten": (
        WIDE_GROUP,
        "row = (program % TILES) * BLOCK_M + tl.arange(0, BLOCK_M)",
        "row = tl.arange(0, BLOCK_M)",
    ),
    "output not rescaled": (RAGGED, "acc = acc * shrink[:, None]", "acc = acc * 1.0"),
    "sum not rescaled": (
        RAGGED,
        "total = total * shrink + tl.sum(weights, 1)",
        "total = total + tl.sum(weights, 1)",
    ),
    "maximum of the tile alone": (
        RAGGED,
        "new_high = tl.maximum(high, tl.max(scores, 1))",
        "new_high = tl.max(scores, 1)\n        high = new_high",
    ),
    "last tile dropped": (
        RAGGED,
        "last = tl.minimum(first + per_split, length)",
        "last = tl.minimum(first + per_split, length // BLOCK_S * BLOCK_S)",
    ),
    "last part dropped": (
        ODD_TILES,
        "tl.cdiv(tl.cdiv(length, BLOCK_S), splits)",
        "(tl.cdiv(length, BLOCK_S) // splits)",
    ),
    "parts overlap by a token": (
        RAGGED,
        "first = split * per_split",
        "first = split * per_split - split",
    ),
    "one token too many": (RAGGED, "s_mask = start + s < last", "s_mask = start + s <= last"),
    "one token too few": (RAGGED, "s_mask = start + s < last", "s_mask = start + s < last - 1"),
    "masked scores count as zero": (
        RAGGED,
        'scores = tl.where(s_mask[None, :], scores, float("-inf"))',
        "scores = tl.where(s_mask[None, :], scores, 0.0)",
    ),
    "scale missing": (
        RAGGED,
        "log2_scale = scale * 1.4426950408889634",
        "log2_scale = 1.4426950408889634",
    ),
    "natural scale under base 2": (
        RAGGED,
        "log2_scale = scale * 1.4426950408889634",
        "log2_scale = scale",
    ),
    "head and token strides of k swapped": (
        PAGED,
        "head.to(tl.int64) * k_k + within.to(tl.int64) * k_s",
        "head.to(tl.int64) * k_s + within.to(tl.int64) * k_k",
    ),
    "head and token strides of v swapped": (
        PAGED,
        "head.to(tl.int64) * v_k + within.to(tl.int64) * v_s",
        "head.to(tl.int64) * v_s + within.to(tl.int64) * v_k",
    ),
    "strides of k used for v": (
        PAGED,
        "v_at = page * v_p + head.to(tl.int64) * v_k + within.to(tl.int64) * v_s",
        "v_at = page * k_p + head.to(tl.int64) * k_k + within.to(tl.int64) * k_s",
    ),
    "q taken for contiguous": (
        PAGED,
        "q + b * q_b + n[:, None] * q_n",
        "q + b * out_b + n[:, None] * q_n",
    ),
    "page of the tile's first token": (
        PAGED,
        "index = (start + s) // PAGE",
        "index = start // PAGE + s * 0",
    ),
    "place within the page from the tile": (
        PAGED,
        "within = (start + s) % PAGE",
        "within = s % PAGE",
    ),
    "second page of a tile missed": (
        LARGE_PAGES,
        "index = start // block + crossed.to(tl.int32)",
        "index = start // block + crossed.to(tl.int32) * 0",
    ),
    "border of two pages off by one": (
        LARGE_PAGES,
        "crossed = within >= block",
        "crossed = within > block",
    ),
    "table of the first sequence": (RAGGED, "table + b * table_b + index", "table + index"),
    "length of the first sequence": (
        RAGGED,
        "length = tl.load(lens + b)",
        "length = tl.load(lens)",
    ),
    "values read as keys": (RAGGED, "tl.load(v + v_at[:, None]", "tl.load(k + v_at[:, None]"),
    "parts all stored in one place": (
        RAGGED,
        "at = (b * (K * GROUP) + n) * splits + split",
        "at = (b * (K * GROUP) + n) * splits",
    ),
    "logarithm of the sum without the maximum": (
        RAGGED,
        "high + tl.log2(total)",
        "tl.log2(total)",
    ),
    "parts added unweighted": (RAGGED, "tl.sum(weights[:, None] * rows, 0)", "tl.sum(rows, 0)"),
    "merged output not rescaled": (
        LONG,
        "acc = acc * shrink + tl.sum(weights[:, None] * rows, 0)",
        "acc = acc + tl.sum(weights[:, None] * rows, 0)",
    ),
    "merged sum not rescaled": (
        LONG,
        "total = total * shrink + tl.sum(weights, 0)",
        "total = total + tl.sum(weights, 0)",
    ),
    "parts beyond the first sixteen forgotten": (
        LONG,
        "tl.range(0, splits, BLOCK_P)",
        "tl.range(0, tl.minimum(splits, BLOCK_P), BLOCK_P)",
    ),
    "merged head of the first sequence": (
        RAGGED,
        "at = (program // N) * out_b + (program % N) * out_n + h",
        "at = (program % N) * out_n + h",
    ),
    "empty sequence has no number": (
        RAGGED,
        'finite = tl.where(new_high == float("-inf"), 0.0, new_high)',
        "finite = new_high",
    ),
    "empty part divides by zero": (
        RAGGED,
        "total = tl.where(total > 0, total, 1.0)",
        "total = total * 1.0",
    ),
    "output left unwritten": (
        RAGGED,
        "tl.store(out + at, acc.to(out.dtype.element_ty), mask=q_mask)",
        "pass",
    ),
}


def load_twin(path: Path, old: str, new: str) -> Callable[..., Any]:
    """kernel.py with one fault, as a module of its own. Triton reads its source from the file."""
    assert SOURCE.count(old) == 1, f"{old!r} stands {SOURCE.count(old)} times in kernel.py"
    path.write_text(SOURCE.replace(old, new))
    spec = spec_from_file_location("twin", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., Any] = module.decode_attention
    return function


# A fault may divide by zero or overflow on its way; only the values count.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("name", TWINS)
def test_broken_twin_is_caught(
    name: str, tmp_path: Path, draw: Callable[..., Any], complaints: Callable[..., list[str]]
) -> None:
    (shape, splits), old, new = TWINS[name]
    twin = load_twin(tmp_path / "twin.py", old, new)
    inputs = draw(SPEC, shape, torch.float32)
    assert any(complaints(SPEC, inputs, partial(twin, splits=parts)) for parts in (1, splits))


def test_the_twin_without_a_fault_passes(
    tmp_path: Path, draw: Callable[..., Any], complaints: Callable[..., list[str]]
) -> None:
    twin = load_twin(tmp_path / "twin.py", "MIN_ROWS = 16", "MIN_ROWS = 16 + 0")
    shape, splits = RAGGED
    assert complaints(SPEC, draw(SPEC, shape, torch.float32), partial(twin, splits=splits)) == []
