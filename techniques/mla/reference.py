"""Latent attention by the paper (arXiv:2405.04434, 2.1.1 to 2.1.3): keys and values of every head
are expanded from the latent, one head at a time, no cache, nothing absorbed."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from harness.model.reference import LinearFunction, decoder_lm, rms_norm, rope
from harness.shape import ModelShape
from harness.techniques.mla.sizes import of


def logits(
    weights: dict[str, Tensor],
    shape: ModelShape,
    tokens: Tensor,
    dtype: torch.dtype,
    linear: LinearFunction,
) -> Tensor:
    """Logits [T, V] of tokens [T]."""
    T, N, z = len(tokens), shape.heads, of(shape)
    positions = torch.arange(T)
    hidden_keys = torch.ones(T, T, dtype=torch.bool).triu(1)

    def queries(layer: int, x: Tensor) -> Tensor:
        if not z.q_rank:
            return linear(f"{layer}.q", x)
        latent = rms_norm(linear(f"{layer}.q_down", x), weights[f"{layer}.q_norm"], shape.eps)
        return linear(f"{layer}.q_up", latent)

    def attention(layer: int, x: Tensor) -> Tensor:
        q = queries(layer, x).view(T, N, z.query)
        both = linear(f"{layer}.kv_down", x)  # [T, R + rope]
        latent = rms_norm(both[:, : z.kv_rank], weights[f"{layer}.kv_norm"], shape.eps)
        shared = rope(both[:, z.kv_rank :].view(T, 1, z.rope_dim), positions, shape, layer)[:, 0]
        keys = linear(f"{layer}.k_up", latent).view(T, N, z.nope_dim)
        values = linear(f"{layer}.v_up", latent).view(T, N, z.value_dim)
        turned = rope(q[:, :, z.nope_dim :], positions, shape, layer)
        heads = []
        for n in range(N):
            key = torch.cat([keys[:, n], shared], -1)  # [T, nope + rope]
            query = torch.cat([q[:, n, : z.nope_dim], turned[:, n]], -1)
            scores = query @ key.T / math.sqrt(z.query)
            heads.append(
                torch.softmax(scores.masked_fill(hidden_keys, -torch.inf), -1) @ values[:, n]
            )
        return linear(f"{layer}.o", torch.cat(heads, -1))

    return decoder_lm(weights, shape, tokens, dtype, linear, attention)
