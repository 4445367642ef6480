"""Mamba by the paper (arXiv:2312.00752, 3.2 and Algorithm 2): the recurrence, a token at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.model.reference import LinearFunction, decoder_lm
from harness.model.state_space.reference import mixer
from harness.shape import ModelShape


def logits(
    weights: dict[str, Tensor],
    shape: ModelShape,
    tokens: Tensor,
    dtype: torch.dtype,
    linear: LinearFunction,
) -> Tensor:
    """Logits [T, V] of tokens [T]."""
    return decoder_lm(weights, shape, tokens, dtype, linear, mixer(weights, shape, linear))
