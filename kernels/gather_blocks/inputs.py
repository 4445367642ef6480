"""Inputs of gather_blocks, and the one place where they are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor


class Inputs(NamedTuple):
    """The arguments of every implementation, in order."""

    pool: Tensor  # [P, K, block, H]
    blocks: Tensor  # [n] int64


def make(
    shape: Mapping[str, int], dtype: torch.dtype, generator: torch.Generator, device: str = "cpu"
) -> Inputs:
    """Draw inputs of a shape of the spec: shuffled blocks of a pool with three more than needed.

    On device "meta" nothing is drawn.
    """
    n, K, block, H = (shape[name] for name in ("n", "K", "block", "H"))
    heads = 2 * K if shape["strided"] else K
    size = (n + 3, heads, block, H)
    if device == "meta":
        pool = torch.empty(size, dtype=dtype, device=device)
        blocks = torch.empty(n, dtype=torch.int64, device=device)
    else:
        where = generator.device
        pool = torch.randn(size, generator=generator, device=where).to(device, dtype)
        blocks = torch.randperm(n + 3, generator=generator, device=where)[:n].to(device)
    return Inputs(pool[:, ::2] if shape["strided"] else pool, blocks)
