"""The same without state: every sum from the start."""

from __future__ import annotations

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
    T, N, H = len(tokens), shape.heads, shape.head_dim
    decay = float(shape.number("decay"))
    age = torch.arange(T)[:, None] - torch.arange(T)[None]
    weight = torch.where(age >= 0, decay ** age.clamp(min=0).double(), 0.0).to(dtype)  # [T, T]
    hidden = torch.ones(T, T, dtype=torch.bool).triu(1)

    def mixer(layer: int, x: Tensor) -> Tensor:
        q = linear(f"{layer}.q", x)
        if layer < shape.layers - 1:
            return linear(f"{layer}.o", weight @ q)
        positions = torch.arange(T)
        queries = rope(q.view(T, N, H), positions, shape, layer)
        keys = rope(linear(f"{layer}.k", x).view(T, N, H), positions, shape, layer)
        values = linear(f"{layer}.v", x).view(T, N, H)
        scores = torch.einsum("tnh,snh->nts", queries, keys) / H**0.5
        seen = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1)
        return linear(f"{layer}.o", torch.einsum("nts,snh->tnh", seen, values).reshape(T, -1))

    return decoder_lm(weights, shape, tokens, dtype, linear, mixer)
