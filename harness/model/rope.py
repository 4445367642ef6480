"""Rotary position embedding (arXiv:2104.09864), halves paired as in HuggingFace checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from harness.kernels.rope_write.eager import rotate as rotated
from harness.model.batch import RaggedBatch
from harness.shape import RopeScaling


def frequencies(dim: int, theta: float, scaling: RopeScaling | None) -> Tensor:
    """Angle a position of each pair of dimensions, [dim / 2], float64; theta 0 turns none."""
    if theta == 0:
        return torch.zeros(dim // 2, dtype=torch.float64)
    base = theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    if scaling is None:
        return base
    wavelength = 2 * math.pi / base
    longest = scaling.original_max_len / scaling.low_freq_factor
    shortest = scaling.original_max_len / scaling.high_freq_factor
    # Between the two bounds the divided and the plain frequency are blended linearly.
    blend = (scaling.original_max_len / wavelength - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor
    )
    blended = (1 - blend) * base / scaling.factor + blend * base
    scaled = torch.where(wavelength > longest, base / scaling.factor, base)
    between = (wavelength <= longest) & (wavelength >= shortest)
    return torch.where(between, blended, scaled)


class RopeTable:
    """Cosines and signed sines of every position below `length`, [length, 2, dim], in float32.

    With the sines of the first half negated, a rotation is `x * cos + swap_halves(x) * sin`.
    """

    def __init__(self, turning: Tensor, length: int, dtype: torch.dtype, device: str) -> None:
        """`turning` are the `frequencies`, [dim / 2]."""
        angle = torch.arange(length, dtype=torch.float64)[:, None] * turning  # [length, dim / 2]
        cos, sin = angle.cos(), angle.sin()
        table = torch.stack([torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)], 1)
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        self._table = table.to(device, wide)

    def of(self, batch: RaggedBatch) -> tuple[Tensor, Tensor]:
        """Cosine and sine for a batch's rows, each [T, 1, dim]; [1, 1, dim] when all are equal."""
        if batch.captured is None:
            return self.at(batch.positions)
        cos, sin = self._table[batch.captured].unsqueeze(2).unbind(1)
        return cos, sin

    def at(self, positions: list[int]) -> tuple[Tensor, Tensor]:
        """The same for positions that the host knows."""
        first, count = positions[0], len(positions)
        if positions[-1] == first and positions.count(first) == count:
            rows = self._table[first : first + 1]
        elif positions == list(range(first, first + count)):
            rows = self._table[first : first + count]
        else:
            rows = self._table[torch.tensor(positions, device=self._table.device)]
        cos, sin = rows.unsqueeze(2).unbind(1)
        return cos, sin


def rotate(x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate x [T, heads, dim] by the table of its positions; the result has x's dtype."""
    return rotated(x, *table)


class RopeWrite:
    """Rotates a fused projection and writes its keys and values, by the kernel `rope_write`.

    `kernel` None is torch's way: the rotation by itself, and the cache writes as it knows best.
    """

    def __init__(self, kv_heads: int, kernel: Callable[..., Any] | None) -> None:
        self._kv_heads = kv_heads
        self._kernel = kernel

    def __call__(
        self, qkv: Tensor, table: tuple[Tensor, Tensor], tokens: Any, group: int
    ) -> Tensor:
        """qkv [T, N + 2K, H] -> rotated queries [T, N, H]; the rest is in the store afterwards."""
        K = self._kv_heads
        N = qkv.shape[1] - 2 * K
        if self._kernel is None:
            turned = rotated(qkv[:, : N + K], *table)
            tokens.append(group, (turned[:, N:], qkv[:, N + K :]))
            return turned[:, :N]
        cos, sin = _rows(table, qkv.shape[0])
        to = tokens.destinations(group)
        if to is not None:
            q: Tensor = self._kernel(qkv, cos, sin, *to.pools, to.pages, to.offsets)[0]
            return q
        # The store keeps no pages: what is rotated goes to a page of its own, and from there to it.
        T, _, H = qkv.shape
        k, v = (qkv.new_empty(1, K, T, H) for _ in range(2))
        pages = torch.zeros(T, dtype=torch.int64, device=qkv.device)
        offsets = torch.arange(T, device=qkv.device)
        q, k, v = self._kernel(qkv, cos, sin, k, v, pages, offsets)
        tokens.append(group, (k[0].transpose(0, 1), v[0].transpose(0, 1)))
        return q

    def queries(self, q: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        """Rotated queries [T, N, H] of a layer that reads another layer's keys."""
        if self._kernel is None:
            return rotated(q, *table)
        turned: Tensor = self._kernel(q, *_rows(table, q.shape[0]), None, None, None, None)
        return turned


def _rows(table: tuple[Tensor, Tensor], count: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines, [T, H] each: a view, with stride 0 where one row serves all."""
    cos, sin = (rows[:, 0].expand(count, -1) for rows in table)
    return cos, sin
