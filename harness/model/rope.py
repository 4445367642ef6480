"""Rotary position embedding (arXiv:2104.09864), halves paired as in HuggingFace checkpoints."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from harness.shape import ModelShape, RopeScaling


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

    def __init__(
        self, shape: ModelShape, dim: int, length: int, dtype: torch.dtype, device: str
    ) -> None:
        angle = torch.arange(length, dtype=torch.float64)[:, None] * frequencies(
            dim, shape.theta, shape.rope_scaling
        )  # [length, dim / 2]
        cos, sin = angle.cos(), angle.sin()
        table = torch.stack([torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)], 1)
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        self._table = table.to(device, wide)

    def at(self, positions: list[int]) -> tuple[Tensor, Tensor]:
        """Cosine and sine for these positions, each [T, 1, dim]; [1, 1, dim] when all are equal."""
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
    cos, sin = table
    turned = torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), sin)
    # The table is float32: without this the keys of a 16-bit model would not fit their cache.
    return turned.to(x.dtype)
