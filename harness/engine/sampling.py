"""Choosing tokens from logits. Noise is a function of (seed, position, purpose).

No generator runs along: a request's tokens depend neither on its neighbours in a batch, nor on
preemption, nor on how many tokens were proposed before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum

import torch
from torch import Tensor

from harness.engine.request import Sampling
from harness.kernels.sample import eager

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
    result = torch.softmax(eager.scaled(logits, *_settings(logits, samplings)), -1)  # [R, V]
    for row, s in enumerate(samplings):
        if s.temperature <= 0:
            result[row] = 0.0
            result[row, int(logits[row].argmax())] = 1.0
    return result


def draw(distribution: Tensor, numbers: Sequence[float]) -> list[int]:
    """Tokens by inverting the cumulative distribution [R, V] at these numbers in [0, 1), R."""
    at = torch.tensor(numbers, dtype=torch.float64, device=distribution.device)
    found: list[int] = eager.draw(distribution.double(), at).tolist()
    return found


def sample(
    logits: Tensor,
    samplings: Sequence[Sampling],
    positions: Sequence[int],
    purpose: Purpose = Purpose.TARGET,
    *,
    kernel: Callable[..., Tensor] = eager.sample,
) -> list[int]:
    """One token a row of logits [R, V]; `positions` are the places of the tokens to come.

    Args:
        kernel: an implementation of `harness.kernels.sample`.
    """
    settings: tuple[Tensor | None, ...] = (None, None, None)
    numbers = None
    if any(s.temperature > 0 for s in samplings):
        settings = _settings(logits, samplings)
        drawn = [
            uniform(s.seed, position, purpose)
            for s, position in zip(samplings, positions, strict=True)
        ]
        numbers = torch.tensor(drawn, dtype=torch.float64, device=logits.device)
    tokens: list[int] = kernel(logits, *settings, numbers).tolist()
    return tokens


def _settings(
    logits: Tensor, samplings: Sequence[Sampling]
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Temperatures, top_k and top_p of each row, [R]; None where no row has one."""
    device, most = logits.device, logits.shape[-1]
    temperatures = torch.tensor(
        [s.temperature for s in samplings], dtype=torch.float64, device=device
    )
    top_k = top_p = None
    if any(s.top_k > 0 for s in samplings):
        # Any number of digits is a fine top_k, and none that a tensor holds.
        top_k = torch.tensor([min(s.top_k, most) for s in samplings], device=device)
    if any(s.top_p < 1.0 for s in samplings):
        top_p = torch.tensor([s.top_p for s in samplings], dtype=torch.float64, device=device)
    return temperatures, top_k, top_p
