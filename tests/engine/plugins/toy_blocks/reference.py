"""Blocks by brute force: the whole sequence again for every step, without a cache."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from harness.model.reference import LinearFunction, decoder_lm, rope
from harness.shape import ModelShape


def generate(
    weights: dict[str, Tensor],
    shape: ModelShape,
    prompt: list[int],
    new_tokens: int,
    block: int,
    per_step: int,
) -> list[int]:
    """New tokens after a prompt, in float64."""
    mask = shape.vocab - 1

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ weights[name].double().T

    tokens = list(prompt)
    while len(tokens) < len(prompt) + new_tokens:
        start = len(tokens) // block * block
        filled = tokens + [mask] * (start + block - len(tokens))
        places = torch.arange(len(filled)) // block
        visible = places[None] <= places[:, None]  # [T, T]
        while mask in filled[start:]:
            rows = decoder_lm(
                weights, shape, torch.tensor(filled), torch.float64, linear,
                attention(shape, linear, visible),
            )[start:]  # fmt: skip
            rows[:, mask] = -torch.inf
            best, choice = rows.softmax(-1).max(-1)
            undecided = [p for p in range(block) if filled[start + p] == mask]
            for p in sorted(undecided, key=lambda p: -best[p].item())[:per_step]:
                filled[start + p] = int(choice[p])
        tokens = filled
    return tokens[len(prompt) : len(prompt) + new_tokens]


def attention(
    shape: ModelShape, linear: LinearFunction, visible: Tensor
) -> Callable[[int, Tensor], Tensor]:
    """Multi-head attention under any mask [T, T], row sees column."""
    N, H = shape.heads, shape.head_dim

    def mixer(layer: int, x: Tensor) -> Tensor:
        T = len(x)
        q, k, v = (linear(f"{layer}.{name}", x).view(T, N, H) for name in "qkv")
        q, k = (rope(heads, torch.arange(T), shape, layer) for heads in (q, k))
        scores = torch.einsum("tnh,snh->nts", q, k) / math.sqrt(H)  # [N, T, S]
        chances = scores.masked_fill(~visible, -torch.inf).softmax(-1)
        return linear(f"{layer}.o", torch.einsum("nts,snh->tnh", chances, v).reshape(T, -1))

    return mixer
