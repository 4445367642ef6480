"""Autoregressive decoding as its definition: sample, append, repeat."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


def generate(
    logits: Callable[[list[int]], Tensor],
    prompt: list[int],
    new_tokens: int,
    uniform: Callable[[int], float] | None = None,
) -> list[int]:
    """New tokens after a prompt. `logits(tokens)` gives [V] for the next one; `uniform(position)`
    gives the number in [0, 1) to sample with, None is greedy."""
    tokens = list(prompt)
    for _ in range(new_tokens):
        scores = logits(tokens).double()
        if uniform is None:
            tokens.append(int(scores.argmax()))
            continue
        number, token = uniform(len(tokens)), 0
        mass = scores.softmax(-1).tolist()
        while token < len(mass) - 1 and number >= sum(mass[: token + 1]):
            token += 1
        tokens.append(token)
    return tokens[len(prompt) :]
