"""Choosing tokens from logits. Noise is a function of (seed, position, purpose).

No generator runs along: a request's tokens depend neither on its neighbours in a batch, nor on
preemption, nor on how many tokens were proposed before.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import torch
from torch import Tensor

from harness.engine.request import Sampling

_MASK = (1 << 64) - 1


class Purpose(IntEnum):
    """What a random number decides; different purposes at one position are independent."""

    TARGET = 0
    DRAFT = 1
    ACCEPT = 2
    RESIDUAL = 3


def _mix(z: int) -> int:
    """The finalizer of SplitMix64 (Steele, Lea, Flood 2014): one 64-bit word to another."""
    z = (z + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def branch_seed(seed: int, sample: int) -> int:
    """The seed of a request's further answer: unlike that of a neighbour, seed + 1 and so on."""
    return _mix(seed & _MASK ^ _mix(sample))


def uniform(seed: int, position: int, purpose: Purpose = Purpose.TARGET) -> float:
    """A number in [0, 1) that depends on these three and nothing else."""
    word = _mix(_mix(_mix(seed & _MASK) ^ position) ^ int(purpose))
    return (word >> 11) * 2.0**-53


def probabilities(logits: Tensor, samplings: Sequence[Sampling]) -> Tensor:
    """Distributions to sample from, [R, V] float64: temperature, then top-k, then top-p.

    Rows with temperature 0 get all their mass on the largest logit.
    """
    temperatures = torch.tensor(
        [s.temperature if s.temperature > 0 else 1.0 for s in samplings],
        dtype=torch.float64,
        device=logits.device,
    )
    # From the largest logit down and by division: no temperature, however small, overflows.
    scaled = logits.double()
    scaled = (scaled - scaled.max(-1, keepdim=True).values) / temperatures[:, None]
    if any(s.top_k > 0 or s.top_p < 1.0 for s in samplings):
        scaled = _truncated(scaled, samplings)
    result = torch.softmax(scaled, -1)  # [R, V]
    for row, s in enumerate(samplings):
        if s.temperature <= 0:
            result[row] = 0.0
            result[row, int(logits[row].argmax())] = 1.0
    return result


def _truncated(scaled: Tensor, samplings: Sequence[Sampling]) -> Tensor:
    """Logits with everything outside top-k and top-p at minus infinity."""
    ordered, order = scaled.sort(stable=True, dim=-1, descending=True)  # [R, V]
    vocab = scaled.shape[-1]
    device = scaled.device
    counts = [min(s.top_k, vocab) if s.top_k > 0 else vocab for s in samplings]
    k = torch.tensor(counts, device=device)
    ordered = ordered.masked_fill(
        torch.arange(vocab, device=device)[None] >= k[:, None], -torch.inf
    )
    # Above one where off: rounded sums must not cut a row's tail because its neighbour has a top_p.
    limits = [s.top_p if s.top_p < 1.0 else torch.inf for s in samplings]
    p = torch.tensor(limits, dtype=torch.float64, device=device)
    mass = torch.softmax(ordered, -1)
    # A token stays while the mass before it is below p; the first one always stays.
    before = mass.cumsum(-1) - mass
    ordered = ordered.masked_fill((before >= p[:, None]) & (before > 0), -torch.inf)
    return torch.full_like(scaled, -torch.inf).scatter(-1, order, ordered)


def draw(distribution: Tensor, numbers: Sequence[float]) -> list[int]:
    """Tokens by inverting the cumulative distribution [R, V] at these numbers in [0, 1), R."""
    cumulative = distribution.double().cumsum(-1)  # [R, V]
    at = torch.tensor(numbers, dtype=torch.float64, device=distribution.device)[:, None]
    # Rounding may leave the last sum just below one; scaling by it keeps every number inside.
    found = torch.searchsorted(cumulative, at * cumulative[:, -1:], right=True)
    return [int(token) for token in found[:, 0].clamp(max=distribution.shape[-1] - 1).tolist()]


def sample(
    logits: Tensor,
    samplings: Sequence[Sampling],
    positions: Sequence[int],
    purpose: Purpose = Purpose.TARGET,
) -> list[int]:
    """One token a row of logits [R, V]; `positions` are the places of the tokens to come."""
    tokens: list[int] = logits.argmax(-1).tolist()
    rows = [row for row, s in enumerate(samplings) if s.temperature > 0]
    if rows:
        chosen = [samplings[row] for row in rows]
        distribution = probabilities(logits[rows], chosen)
        numbers = [
            uniform(s.seed, positions[row], purpose) for row, s in zip(rows, chosen, strict=True)
        ]
        for row, token in zip(rows, draw(distribution, numbers), strict=True):
            tokens[row] = token
    return tokens
