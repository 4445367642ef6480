"""A window and shared keys and values, one head at a time."""

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
    T, H = len(tokens), shape.head_dim
    places = torch.arange(T)
    distance = places[:, None] - places[None]  # [T, T], row looks back at column
    visible = (distance >= 0) & (distance < (shape.window or T))
    shared: list[Tensor] = []

    def mixer(layer: int, x: Tensor) -> Tensor:
        q = rope(linear(f"{layer}.q", x).view(T, -1, H), places, shape)
        if layer % shape.kv_share == 0:
            k = rope(linear(f"{layer}.k", x).view(T, -1, H), places, shape)
            shared[:] = [k, linear(f"{layer}.v", x).view(T, -1, H)]
        k, v = shared
        heads = []
        for n in range(shape.heads):
            scores = (q[:, n] @ k[:, n].T / math.sqrt(H)).masked_fill(~visible, -torch.inf)
            heads.append(scores.softmax(-1) @ v[:, n])
        return linear(f"{layer}.o", torch.cat(heads, -1))

    return decoder_lm(weights, shape, tokens, dtype, linear, mixer)
