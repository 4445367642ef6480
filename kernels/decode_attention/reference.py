"""Decode attention, plain: the definition of attention over pages. Never timed."""

import torch
from torch import Tensor

from harness.kernels.prefill_attention.reference import prefill_attention


def decode_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: Tensor,
    lens: Tensor,
    scale: float,
    cu_seqlens: Tensor | None = None,
    causal_block: int = 1,
    window: int = 0,
    softcap: float = 0.0,
    mask: Tensor | None = None,
    positions: Tensor | None = None,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
) -> Tensor:
    """`prefill_attention` of few rows a sequence; without `cu_seqlens`, of one row each.

    Returns:
        [T, N, H]. Give float64 for the exact answer.
    """
    if cu_seqlens is None:
        cu_seqlens = torch.arange(len(lens) + 1, dtype=torch.int32, device=lens.device)
    return prefill_attention(
        q, k, v, table, lens, scale, cu_seqlens, causal_block, window, softcap, mask, positions,
        k_scale, v_scale,
    )  # fmt: skip
