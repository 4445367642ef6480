"""From logits to numbers: bits, divergence, hits, and intervals over texts. Plain functions.

The text is the unit of replication: tokens of one text are no independent draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.analysis.student import quantile

_TAIL = 0.025  # of a 95 % interval, on each side


@dataclass(frozen=True)
class Score:
    """A number over texts with its 95 % interval; the bounds are None for a single text."""

    value: float
    low: float | None
    high: float | None
    texts: int


def nats(logits: Tensor, tokens: Sequence[int]) -> Tensor:
    """-log p of each token, [n], from the logits that decide it, [n, V]; float64."""
    wanted = torch.tensor(list(tokens), device=logits.device)[:, None]
    return -logits.double().log_softmax(-1).gather(-1, wanted)[:, 0]


def hits(logits: Tensor, tokens: Sequence[int]) -> Tensor:
    """1 where a token is the likeliest, [n]; float64."""
    wanted = torch.tensor(list(tokens), device=logits.device)
    return (logits.argmax(-1) == wanted).double()


def divergences(baseline: Tensor, logits: Tensor) -> Tensor:
    """KL(baseline || these) of each row in nats, [n], of logits [n, V] each; float64."""
    p, q = baseline.double().log_softmax(-1), logits.double().log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1)


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many leading tokens are equal."""
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return min(len(one), len(other))


def ratio(above: Sequence[float], below: Sequence[float]) -> Score:
    """sum(above) / sum(below), one pair a text: bits by bytes, hits by questions.

    The interval is Student's t over texts for a ratio of sums (Cochran, Sampling Techniques, 3rd
    edition, 6.3).
    """
    assert len(above) == len(below) > 0, "one pair a text"
    n, total = len(above), math.fsum(below)
    value = math.fsum(above) / total
    if n == 1:
        return Score(value, None, None, 1)
    spread = math.fsum((a - value * b) ** 2 for a, b in zip(above, below, strict=True))
    half = quantile(_TAIL, n - 1) * math.sqrt(n / (n - 1) * spread) / abs(total)
    return Score(value, value - half, value + half, n)


def mean(values: Sequence[float]) -> Score:
    """The mean over texts."""
    return ratio(values, [1.0] * len(values))


def share(right: Sequence[float], asked: Sequence[float]) -> Score:
    """A share of right answers, one pair of counts a text; bounds stay within 0 and 1.

    Where all texts agree to the digit their spread says nothing: then the interval is Wilson's for
    so many texts (Journal of the American Statistical Association 22, 1927).
    """
    found = ratio(right, asked)
    if found.low is None or found.high is None:
        return found
    if found.high > found.low:
        return Score(found.value, max(0.0, found.low), min(1.0, found.high), found.texts)
    n, p, z = found.texts, found.value, quantile(_TAIL, 1e9)
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return Score(p, max(0.0, min(p, centre - half)), min(1.0, max(p, centre + half)), n)
