"""Inputs of decode attention, and the one place where they are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

# What slots hold that no sequence may see. Finite, because a cache reuses pages without clearing
# them; large, so that one such key or value read by mistake decides the result.
STALE = 48.0


class Inputs(NamedTuple):
    """The arguments of every implementation, in order."""

    q: Tensor  # [B, N, H]
    k: Tensor  # [P, K, block, H]
    v: Tensor  # [P, K, block, H]
    table: Tensor  # [B, pages] int32
    lens: Tensor  # [B] int32
    scale: float


def make(
    shape: Mapping[str, int], dtype: torch.dtype, generator: torch.Generator, device: str = "cpu"
) -> Inputs:
    """Draw inputs of a shape of the spec: shuffled pages, stale entries, ragged lengths.

    Everything is drawn on the generator's device (the CPU) in float32, so that one seed gives the
    same numbers in every dtype up to rounding. On device "meta" nothing is drawn.
    """
    B, S, N, K, H = (shape[name] for name in ("B", "S", "N", "K", "H"))
    # Three tokens of spare capacity: a contiguous slot is rarely full.
    block = shape["block"] or S + 3
    pages = -(-S // block)
    # One page more than needed, so that page numbers are no permutation of the sequences.
    P = B * pages + 1

    if device == "meta":
        sizes = ((B, N, H), (P, K, block, H), (P, K, block, H))
        q, k, v = (torch.empty(size, dtype=dtype, device=device) for size in sizes)
        if shape["strided"]:
            q, k, v = _strided(q, k, v)
        table, lens = (
            torch.empty(size, dtype=torch.int32, device=device) for size in ((B, pages), (B,))
        )
        return Inputs(q, k, v, table, lens, H**-0.5)

    lens = torch.full((B,), S)
    if shape["ragged"]:
        lens[1:] = torch.randint(0, S + 1, (B - 1,), generator=generator)
        lens[-1] = 0
    order = torch.randperm(P, generator=generator)
    table = order[: B * pages].reshape(B, pages)

    held = torch.zeros(P, block, dtype=torch.bool)
    place = torch.arange(pages * block).reshape(pages, block)
    for b in range(B):
        held[table[b]] = place < lens[b]

    def pool() -> Tensor:
        drawn = torch.randn(P, K, block, H, generator=generator)
        return torch.where(held[:, None, :, None], drawn, STALE).to(device, dtype)

    q, k, v = torch.randn(B, N, H, generator=generator).to(device, dtype), pool(), pool()
    if shape["strided"]:
        q, k, v = _strided(q, k, v)
    table, lens = table.to(device, torch.int32), lens.to(device, torch.int32)
    return Inputs(q, k, v, table, lens, H**-0.5)


def _strided(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same numbers as views into larger tensors, each with strides of its own."""
    fused = torch.cat([q, q], dim=1)  # [B, 2N, H]: queries as part of a fused projection
    entries = torch.stack([k, k], dim=3)  # [P, K, block, 2, H]: two streams in one pool
    token_major = v.transpose(1, 2).contiguous()  # [P, block, K, H]
    return fused[:, : q.shape[1]], entries[:, :, :, 0], token_major.transpose(1, 2)
