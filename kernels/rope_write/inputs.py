"""Inputs of rope_write, and the one place where they are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor


class Inputs(NamedTuple):
    """The arguments of every implementation, in order."""

    qkv: Tensor  # [T, N + 2K, H]
    cos: Tensor  # [T, H]
    sin: Tensor  # [T, H]
    k_pool: Tensor | None  # [P, K, block, H]
    v_pool: Tensor | None  # [P, K, block, H]
    pages: Tensor | None  # [T] int64
    offsets: Tensor | None  # [T] int64


def make(
    shape: Mapping[str, int], dtype: torch.dtype, generator: torch.Generator, device: str = "cpu"
) -> Inputs:
    """Draw inputs of a shape of the spec: shuffled places, `idle` rows without one.

    On device "meta" nothing is drawn. The pools hold numbers of the size of keys already, so that
    what is written to a wrong place, or not at all, shows.
    """
    T, N, K, H, block = (shape[name] for name in ("T", "N", "K", "H", "block"))
    meta = device == "meta"
    where = torch.device("meta") if meta else generator.device
    table = torch.float64 if dtype == torch.float64 else torch.float32

    def draw(*size: int) -> Tensor:
        drawn = torch.empty(size, device=where)
        return (drawn if meta else drawn.normal_(generator=generator)).to(device, dtype)

    qkv = draw(T, N + 2 * K, H)
    if shape["strided"]:
        qkv = torch.cat([qkv, qkv], dim=2)[:, :, :H]  # a row of something wider
    cos, sin = _table(T, H, generator, meta=meta)
    cos, sin = cos.to(device, table), sin.to(device, table)
    if K == 0:
        return Inputs(qkv, cos, sin, None, None, None, None)
    size = block or 2 * T
    P = -(-2 * T // size) + 1
    k_pool, v_pool = draw(P, K, size, H), draw(P, K, size, H)
    if shape["strided"]:
        k_pool = torch.stack([k_pool, k_pool], dim=3)[:, :, :, 0]  # two streams in one pool
        v_pool = v_pool.transpose(1, 2).contiguous().transpose(1, 2)  # token-major
    if meta:
        pages, offsets = (torch.empty(T, dtype=torch.int64, device=device) for _ in range(2))
        return Inputs(qkv, cos, sin, k_pool, v_pool, pages, offsets)
    places = torch.randperm(P * size, generator=generator, device=where)[:T]
    pages, offsets = places // size, places % size
    pages[T - shape["idle"] :] = -1
    return Inputs(qkv, cos, sin, k_pool, v_pool, pages.to(device), offsets.to(device))


def _table(T: int, H: int, generator: torch.Generator, *, meta: bool) -> tuple[Tensor, Tensor]:
    """Cosines and signed sines of random positions below 8,192, [T, H] each, in float64."""
    if meta:
        return torch.empty(T, H, device="meta"), torch.empty(T, H, device="meta")
    where = generator.device
    position = torch.randint(0, 8192, (T, 1), generator=generator, device=where)
    angle = position * 10000.0 ** (-torch.arange(0, H, 2, dtype=torch.float64, device=where) / H)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([cos, cos], 1), torch.cat([-sin, sin], 1)
