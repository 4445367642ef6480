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
    same numbers in every dtype up to rounding.
    """
    B, S, N, K, H = (shape[name] for name in ("B", "S", "N", "K", "H"))
    # Three tokens of spare capacity: a contiguous slot is rarely full.
    block = shape["block"] or S + 3
    pages = -(-S // block)
    # One page more than needed, so that page numbers are no permutation of the sequences.
    P = B * pages + 1

    lens = torch.full((B,), S)
    if shape["ragged"]:
        lens[1:] = torch.randint(0, S + 1, (B - 1,), generator=generator)
        lens[-1] = 0
    order = torch.randperm(P, generator=generator)
    table = order[: B * pages].reshape(B, pages)

    q = torch.randn(B, N, H, generator=generator)
    kv = torch.randn(P, K, block, 2, H, generator=generator)
    place = torch.arange(pages * block).reshape(pages, block)
    for b in range(B):
        held = place < lens[b]  # [pages, block]
        kv[table[b]] = torch.where(held[:, None, :, None, None], kv[table[b]], STALE)
    kv[order[B * pages :]] = STALE

    kv = kv.to(device, dtype)
    k, v = kv.unbind(3)
    if not shape["strided"]:
        k, v = k.contiguous(), v.contiguous()
    return Inputs(
        q.to(device, dtype),
        k,
        v,
        table.to(device, torch.int32),
        lens.to(device, torch.int32),
        H**-0.5,
    )
