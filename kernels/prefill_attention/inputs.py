"""Inputs of attention over pages, and the one place where they are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from harness.kernels.prefill_attention import complete

# What slots hold that no sequence may see. Finite, because a cache reuses pages without clearing
# them; large, so that one such key or value read by mistake decides the result.
STALE = 48.0


class Inputs(NamedTuple):
    """The arguments of every implementation, in order."""

    q: Tensor  # [T, N, H]
    k: Tensor  # [P, K, block, H]
    v: Tensor  # [P, K, block, H]
    table: Tensor  # [B, pages] int32
    lens: Tensor  # [B] int32
    scale: float
    cu_seqlens: Tensor | None  # [B + 1] int32
    causal_block: int = 1
    window: int = 0
    softcap: float = 0.0
    mask: Tensor | None = None  # [T, Q] float32
    positions: Tensor | None = None  # [T] int32
    k_scale: Tensor | None = None  # [P, K, block] float32
    v_scale: Tensor | None = None  # [P, K, block] float32


def make(
    shape: Mapping[str, int], dtype: torch.dtype, generator: torch.Generator, device: str = "cpu"
) -> Inputs:
    """Draw inputs of a shape of the spec: shuffled pages, stale entries, ragged rows and lengths.

    Everything is drawn on the generator's device in float32, so that one seed gives the
    same numbers in every dtype up to rounding. On device "meta" nothing is drawn.
    """
    shape = complete(shape)
    B, S = shape["B"], shape["S"]
    rows, lens = [shape["T"] or S] * B, [S] * B
    if shape["ragged"] and device != "meta":
        for b in range(1, B):
            rows[b] = number(generator, 1, rows[0])
            lens[b] = rows[b] + number(generator, 0, S - rows[b])
        # A sequence of one token, and one that gives no rows and holds nothing.
        if B > 1:
            rows[1] = lens[1] = 1
        if B > 2:
            rows[-1] = lens[-1] = 0
    return draw(shape, rows, lens, dtype, generator, device)


def draw(
    shape: Mapping[str, int],
    rows: Sequence[int],
    lens: Sequence[int],
    dtype: torch.dtype,
    generator: torch.Generator,
    device: str,
) -> Inputs:
    """Inputs for sequences that give so many rows each and hold so many tokens with them."""
    shape = complete(shape)
    B, S, N, K, H = (shape[name] for name in ("B", "S", "N", "K", "H"))
    # Three tokens of spare capacity: a contiguous slot is rarely full.
    block = shape["block"] or S + 3
    pages = -(-S // block)
    # One page more than needed, so that page numbers are no permutation of the sequences.
    P = B * pages + 1
    T, Q = sum(rows), max(rows)
    stored = torch.int8 if shape["int8"] else torch.float8_e4m3fn if shape["fp8"] else dtype
    quantised = stored is not dtype
    numbers: dict[str, Any] = {
        "scale": H**-0.5,
        "causal_block": shape["causal_block"] or 1,
        "window": shape["window"],
        "softcap": float(shape["softcap"]),
        "mask": None,
        "positions": None,
    }
    if device == "meta":

        def absent(*size: int, dtype: torch.dtype) -> Tensor:
            return torch.empty(size, dtype=dtype, device=device)

        q, k, v = (
            absent(T, N, H, dtype=dtype),
            absent(P, K, block, H, dtype=stored),
            absent(P, K, block, H, dtype=stored),
        )
        k_scale, v_scale = (
            absent(P, K, block, dtype=torch.float32) if quantised else None for _ in "kv"
        )
        table, held, bounds = (
            absent(*size, dtype=torch.int32) for size in ((B, pages), (B,), (B + 1,))
        )
        if shape["mask"]:
            numbers["mask"] = absent(T, Q, dtype=torch.float32)
            if shape["window"]:
                numbers["positions"] = absent(T, dtype=torch.int32)
    else:
        where = generator.device
        order = torch.randperm(P, generator=generator, device=where)
        table = order[: B * pages].reshape(B, pages)
        used = torch.zeros(P, block, dtype=torch.bool, device=where)
        place = torch.arange(pages * block, device=where).reshape(pages, block)
        for b in range(B):
            used[table[b]] = place < lens[b]
        q = torch.randn(T, N, H, generator=generator, device=where).to(dtype)
        (k, k_scale), (v, v_scale) = (_pool(used, K, H, stored, quantised, generator) for _ in "kv")
        if shape["low"]:
            # Exponentials of the scores themselves, nothing taken from them, are zero.
            q[..., 0], k[..., 0] = -32.0, 32.0
        held, bounds = torch.tensor(lens), torch.tensor([0, *rows]).cumsum(0)
        if shape["mask"]:
            mask, positions = _tree(rows, lens, shape["window"], generator)
            numbers["mask"] = mask
            numbers["positions"] = positions.int() if shape["window"] else None
    fields = numbers | {
        "q": q, "k": k, "v": v, "table": table.int(), "lens": held.int(),
        "cu_seqlens": bounds.int(), "k_scale": k_scale, "v_scale": v_scale,
    }  # fmt: skip
    fields = {
        name: value.to(device) if isinstance(value, Tensor) else value
        for name, value in fields.items()
    }
    if shape["strided"]:
        # On the device: a move would make views dense.
        fields |= zip("qkv", _strided(fields["q"], fields["k"], fields["v"]), strict=True)
    return Inputs(**fields)


def number(generator: torch.Generator, low: int, high: int) -> int:
    """A whole number from low to high, both included."""
    drawn = torch.randint(low, high + 1, (), generator=generator, device=generator.device)
    return int(drawn)


def _pool(
    used: Tensor, K: int, H: int, stored: torch.dtype, quantised: bool, generator: torch.Generator
) -> tuple[Tensor, Tensor | None]:
    """Keys or values [P, K, block, H] and, where they are quantised, their scales [P, K, block]."""
    P, block = used.shape
    drawn = torch.randn(P, K, block, H, generator=generator, device=generator.device)
    if not quantised:
        return torch.where(used[:, None, :, None], drawn, STALE).to(stored), None
    # As a cache quantises: the largest number of a token and head becomes the largest there is.
    largest = 127.0 if stored is torch.int8 else 448.0
    scale = drawn.abs().amax(-1).clamp(min=1e-6) / largest  # [P, K, block]
    numbers = drawn / scale[..., None]
    numbers = numbers.round() if stored is torch.int8 else numbers
    numbers = torch.where(used[:, None, :, None], numbers, STALE)
    return numbers.to(stored), torch.where(used[:, None], scale, STALE)


def _tree(
    rows: Sequence[int], lens: Sequence[int], window: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """An additive mask [T, Q] and positions [T] of draft trees: every row sees its ancestors.

    What is seen has a bias of its own, so that a mask read at a wrong place shows. The row of a
    sequence of one token sees nothing at all.
    """
    T, Q = sum(rows), max(rows)
    mask = torch.full((T, Q), -torch.inf)
    positions = torch.zeros(T, dtype=torch.int64)
    first = 0
    for count, length in zip(rows, lens, strict=True):
        depths: list[int] = []
        for r in range(count):
            at = first + r
            # Chains now and then, so that some branches are deep.
            parent = r - 1 if r % 3 == 0 else number(generator, -1, r - 1)
            depths.append(0 if parent < 0 else depths[parent] + 1)
            if parent >= 0:
                mask[at] = mask[first + parent]
            if length > 1:
                mask[at, r] = 0.0
            positions[at] = length - count + depths[r]
            if window:
                far = torch.tensor([depths[r] - depth >= window for depth in depths])
                mask[at, : r + 1][far] = -torch.inf
        first += count
    bias = torch.randn(T, Q, generator=generator, device=generator.device)
    return mask.to(bias.device) + bias, positions


def _strided(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same numbers as views into larger tensors, each with strides of its own."""
    fused = torch.stack([q, q], dim=2)  # [T, N, 2, H]: queries beside something of their own
    entries = torch.stack([k, k], dim=3)  # [P, K, block, 2, H]: two streams in one pool
    token_major = v.transpose(1, 2).contiguous()  # [P, block, K, H]
    return fused[:, :, 0], entries[:, :, :, 0], token_major.transpose(1, 2)
