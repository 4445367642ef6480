"""A hybrid by its parts' references: softmax attention in some layers, the recurrence in others."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.model.reference import LinearFunction, attention_mixer, decoder_lm
from harness.model.state_space.reference import mixer as state_space
from harness.shape import STANDARD_MIXER, ModelShape


def logits(
    weights: dict[str, Tensor],
    shape: ModelShape,
    tokens: Tensor,
    dtype: torch.dtype,
    linear: LinearFunction,
) -> Tensor:
    """Logits [T, V] of tokens [T]."""
    attention = attention_mixer(shape, len(tokens), linear, weights)
    recurrence = state_space(weights, shape, linear)

    def mixer(layer: int, x: Tensor) -> Tensor:
        return (attention if shape.mixers[layer] == STANDARD_MIXER else recurrence)(layer, x)

    return decoder_lm(weights, shape, tokens, dtype, linear, mixer)
