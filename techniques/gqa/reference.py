"""Grouped-query attention by the paper (arXiv:2305.13245, 2.2): query head n reads key/value head
n // (N / K). One head at a time, no cache."""

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
    N, K, H = shape.heads, shape.kv_heads, shape.head_dim
    positions = torch.arange(T)
    hidden_keys = torch.ones(T, T, dtype=torch.bool).triu(1)  # row t must not see these

    def attention(layer: int, x: Tensor) -> Tensor:
        q = rope(linear(f"{layer}.q", x).view(T, N, H), positions, shape)
        k = rope(linear(f"{layer}.k", x).view(T, K, H), positions, shape)
        v = linear(f"{layer}.v", x).view(T, K, H)
        heads = []
        for n in range(N):
            shared = n // (N // K)
            scores = q[:, n] @ k[:, shared].T / math.sqrt(H)  # [T, T]
            weighted = torch.softmax(scores.masked_fill(hidden_keys, -torch.inf), -1)
            heads.append(weighted @ v[:, shared])  # [T, H]
        return linear(f"{layer}.o", torch.cat(heads, -1))

    return decoder_lm(weights, shape, tokens, dtype, linear, attention)
