"""Sampling, plain: the definition, a token at a time, in float64 always. Never timed."""

import math

import torch
from torch import Tensor


def sample(
    logits: Tensor,
    temperatures: Tensor | None,
    top_k: Tensor | None,
    top_p: Tensor | None,
    numbers: Tensor | None,
) -> Tensor:
    """[R, V] -> [R] int64; arguments as in the package's docstring.

    Sources: arXiv:1805.04833, section 5.2 (top-k); arXiv:1904.09751, section 3 (top-p).
    """
    tokens = []
    for r, row in enumerate(logits.double().tolist()):
        best = max(range(len(row)), key=lambda i: row[i])
        if temperatures is None or numbers is None or temperatures[r] <= 0:
            tokens.append(best)
            continue
        temperature = float(temperatures[r])
        weights = [math.exp((x - row[best]) / temperature) for x in row]
        # Sorting is stable: of equals the first comes first.
        order = sorted(range(len(row)), key=lambda i: -row[i])
        if top_k is not None and top_k[r] > 0:
            order = order[: int(top_k[r])]
        if top_p is not None and top_p[r] < 1:
            order = _nucleus(order, weights, float(top_p[r]))
        tokens.append(_drawn(sorted(order), weights, float(numbers[r])))
    return torch.tensor(tokens, dtype=torch.int64, device=logits.device)


def _nucleus(order: list[int], weights: list[float], p: float) -> list[int]:
    """The first tokens, while the weight before each is below p of the whole."""
    whole, before, kept = sum(weights[i] for i in order), 0.0, []
    for i in order:
        if before > 0 and before >= p * whole:
            break
        kept.append(i)
        before += weights[i]
    return kept


def _drawn(kept: list[int], weights: list[float], number: float) -> int:
    """The first token up to which the weight exceeds `number` of the whole."""
    whole, before = sum(weights[i] for i in kept), 0.0
    for i in kept:
        before += weights[i]
        if before > number * whole:
            return i
    return kept[-1]
