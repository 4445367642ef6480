"""Multi-head attention by the paper (arXiv:1706.03762, 3.2): one head at a time, no cache."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from harness.model.reference import LinearFunction, decoder_lm, rope
from harness.shape import ModelShape


def logits(
    weights: dict[str, Tensor],
    shape: ModelShape,
    tokens: Tensor,
    dtype: torch.dtype,
    linear: LinearFunction,
) -> Tensor:
    """Logits [T, V] of tokens [T]."""
    T = len(tokens)
    positions = torch.arange(T)
    hidden_keys = torch.ones(T, T, dtype=torch.bool).triu(1)  # row t must not see these

    def attention(layer: int, x: Tensor) -> Tensor:
        q, k, v = (
            linear(f"{layer}.{name}", x).view(T, shape.heads, shape.head_dim) for name in "qkv"
        )  # [T, N, H]
        q, k = rope(q, positions, shape), rope(k, positions, shape)
        out = torch.empty_like(q)
        for n in range(shape.heads):
            scores = q[:, n] @ k[:, n].T / math.sqrt(shape.head_dim)  # [T, T]
            scores = scores.masked_fill(hidden_keys, -torch.inf)
            out[:, n] = torch.softmax(scores, -1) @ v[:, n]
        return linear(f"{layer}.o", out.reshape(T, -1))

    return decoder_lm(weights, shape, tokens, dtype, linear, attention)
