"""Inputs of decode attention over latents, and the one place where they are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from harness.kernels.decode_attention import inputs as attention
from harness.kernels.prefill_attention import shape_of

STALE = attention.STALE


class Inputs(NamedTuple):
    """The arguments of every implementation, in order."""

    q: Tensor  # [T, N, E]
    latent: Tensor  # [P, 1, block, E]
    table: Tensor  # [B, pages] int32
    lens: Tensor  # [B] int32
    scale: float
    rank: int  # R
    cu_seqlens: Tensor | None = None  # [B + 1] int32
    causal_block: int = 1
    mask: Tensor | None = None  # [T, Q] float32


def make(
    shape: Mapping[str, int], dtype: torch.dtype, generator: torch.Generator, device: str = "cpu"
) -> Inputs:
    """Those of decode attention with one key/value head, whose keys are the latents."""
    names = ("draft", "block", "ragged", "strided", "mask")
    like = shape_of(shape["B"], shape["S"], shape["N"], 1, shape["entry"])
    drawn = attention.make(like | {name: shape[name] for name in names}, dtype, generator, device)
    latent = drawn.k
    if shape["strided"]:
        # One of two heads of a pool, so that pages are further apart than an entry's heads.
        latent = torch.cat([latent, latent], 1)[:, :1]
    return Inputs(
        drawn.q, latent, drawn.table, drawn.lens, drawn.scale, shape["rank"], drawn.cu_seqlens,
        drawn.causal_block, drawn.mask,
    )  # fmt: skip
