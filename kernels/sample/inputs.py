"""Inputs of sampling, and the one place where they are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from harness.kernels.sample.eager import scaled


class Inputs(NamedTuple):
    """The arguments of every implementation, in order."""

    logits: Tensor  # [R, V]
    temperatures: Tensor | None  # [R] float64
    top_k: Tensor | None  # [R] int64
    top_p: Tensor | None  # [R] float64
    numbers: Tensor | None  # [R] float64


def make(
    shape: Mapping[str, int], dtype: torch.dtype, generator: torch.Generator, device: str = "cpu"
) -> Inputs:
    """Draw inputs of a shape of the spec: rows of all kinds, one of five greedy.

    On device "meta" nothing is drawn. With equal logits all other numbers are eighths, and sums
    meet their bounds exactly; else they lie as far from them as they can.
    """
    R, V, flat = shape["R"], shape["V"], shape["flat"]
    if device == "meta":
        return Inputs(
            torch.empty(R, V, dtype=dtype, device=device),
            *(
                torch.empty(R, dtype=kind, device=device) if wanted else None
                for wanted, kind in (
                    (not shape["greedy"], torch.float64),
                    (shape["k"], torch.int64),
                    (shape["p"], torch.float64),
                    (not shape["greedy"], torch.float64),
                )
            ),
        )
    where = generator.device
    logits = 3 * torch.randn(R, V, generator=generator, device=where)
    # No logit of these rows is above zero.
    logits[1::3] -= 32
    # The first and the last token are of those that stay.
    logits[::4, 0], logits[1::4, -1] = logits[::4].amax(-1) + 0.5, logits[1::4].amax(-1) + 0.5
    if shape["ties"]:
        logits = (logits / 2).round()
        # Some rows' are unlike each other by a few of float32's last places alone.
        logits[2::4] = 2 + logits[2::4].abs() * 2.0**-22
    if flat:
        # Zeros of both signs are equal.
        logits = torch.zeros_like(logits)
        logits[:, ::3] = -0.0
    logits = logits.to(device, dtype)
    if shape["strided"]:
        logits = torch.cat([logits, logits + 9], dim=1)[:, :V]
    if shape["greedy"]:
        return Inputs(logits, None, None, None, None)
    row = torch.arange(R, device=where)

    def uniform() -> Tensor:
        drawn = torch.rand(R, dtype=torch.float64, generator=generator, device=where)
        return (drawn * 8).floor() / 8 if flat else drawn

    temperatures = torch.where(row % 5 == 4, 0.0, 0.2 + 1.5 * uniform())
    temperatures[3::7] = 1e-300
    # Many and few, one, more than there are, none.
    k = 1 + (uniform() ** 3 * V / 2).long()
    k[2::8], k[5::8], k[6::8] = 1, V + 7, 0
    p, numbers = uniform(), uniform()
    tops = k if shape["k"] else None
    if flat:
        numbers[2::6] = 1 - 2.0**-53
    else:
        # In the middle of what gives the same token, so that no rounding decides.
        logs = scaled(logits.to(where), temperatures, tops, None)
        p = _middle(logs.exp().sort(-1, descending=True).values, p)
    p[1::8], p[4::8] = 0.0, 1.0
    if not flat:
        logs = scaled(logits.to(where), temperatures, tops, p if shape["p"] else None)
        weights = logs.exp()
        numbers = _middle(weights, numbers)
        numbers[::2] = _least(weights, numbers)[::2]
    drawn = [temperatures, tops, p if shape["p"] else None, numbers]
    return Inputs(logits, *(None if each is None else each.to(device) for each in drawn))


def _middle(weights: Tensor, shares: Tensor) -> Tensor:
    """Shares [R] of the sums of weights [R, V], each moved to the middle of the weight it meets."""
    sums = weights.cumsum(-1)
    whole = sums[:, -1:]
    met = torch.searchsorted(sums, shares[:, None] * whole, right=True).clamp(max=sums.shape[1] - 1)
    return ((sums - weights / 2).gather(1, met) / whole)[:, 0]


def _least(weights: Tensor, shares: Tensor) -> Tensor:
    """Shares [R] that meet the least of the weights [R, V] instead, if not lost in rounding.

    One weight more or less, where something is cut off, moves them to another token.
    """
    least, at = torch.where(weights > 0, weights, torch.inf).min(-1)
    sums = weights.cumsum(-1)
    # Near either end of it.
    part = torch.where(torch.arange(len(shares), device=shares.device) % 4 > 0, 1 / 32, 31 / 32)
    share = (sums.gather(1, at[:, None])[:, 0] - least * part) / sums[:, -1]
    return torch.where(least > 1e-4 * sums[:, -1], share, shares)
