"""Attention behind a convolution by the paper (arXiv:2312.04927, 4): each channel's last k inputs,
weighted and summed, are added to what attention reads."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.model.reference import LinearFunction, attention_mixer, decoder_lm
from harness.shape import ModelShape


def logits(
    weights: dict[str, Tensor],
    shape: ModelShape,
    tokens: Tensor,
    dtype: torch.dtype,
    linear: LinearFunction,
) -> Tensor:
    """Logits [T, V] of tokens [T]."""
    attention = attention_mixer(shape, len(tokens), linear, weights)

    def mixer(layer: int, x: Tensor) -> Tensor:
        kernel = weights[f"{layer}.conv"].to(x.dtype)  # [D, k]
        rows = []
        for t in range(len(x)):
            mixed = x[t]
            # The kernel's last column is the token's own.
            for back in range(min(t + 1, kernel.shape[1])):
                mixed = mixed + kernel[:, -1 - back] * x[t - back]
            rows.append(mixed)
        return attention(layer, torch.stack(rows))

    return decoder_lm(weights, shape, tokens, dtype, linear, mixer)
