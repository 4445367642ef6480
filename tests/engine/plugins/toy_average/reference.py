"""The moving average by its definition, and plain attention on the other layers of a hybrid."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.model.reference import LinearFunction, decoder_lm
from harness.shape import ModelShape
from harness.technique import load


def logits(
    weights: dict[str, Tensor],
    shape: ModelShape,
    tokens: Tensor,
    dtype: torch.dtype,
    linear: LinearFunction,
) -> Tensor:
    """Logits [T, V] of tokens [T]."""
    T = len(tokens)
    share = float(shape.number("average_share"))
    causal = torch.ones(T, T, dtype=torch.bool).tril()
    attention = load("harness.techniques.toy_blocks.reference:attention")(shape, linear, causal)

    def mixer(layer: int, x: Tensor) -> Tensor:
        if "Attention" in shape.mixers[layer]:
            mixed: Tensor = attention(layer, x)
            return mixed
        entries = linear(f"{layer}.q", x)
        means = torch.zeros_like(entries)
        for t in range(T):
            for s in range(t + 1):
                means[t] += (1 - share) * share ** (t - s) * entries[s]
        return linear(f"{layer}.o", means)

    return decoder_lm(weights, shape, tokens, dtype, linear, mixer)
