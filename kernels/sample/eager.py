"""Sampling in PyTorch, in float64: the torch backend."""

import torch
from torch import Tensor


def sample(
    logits: Tensor,
    temperatures: Tensor | None,
    top_k: Tensor | None,
    top_p: Tensor | None,
    numbers: Tensor | None,
) -> Tensor:
    """[R, V] -> [R] int64; arguments as in the package's docstring."""
    tokens = logits.argmax(-1)
    if temperatures is None or numbers is None:
        return tokens
    weights = scaled(logits, temperatures, top_k, top_p).exp()
    return torch.where(temperatures > 0, draw(weights, numbers), tokens)


def scaled(
    logits: Tensor, temperatures: Tensor, top_k: Tensor | None, top_p: Tensor | None
) -> Tensor:
    """Logarithms of weights, [R, V] float64, the largest 0 and minus infinity what is cut off.

    Rows of temperature 0 are as of temperature 1.
    """
    temperatures = torch.where(temperatures > 0, temperatures, 1.0)
    # From the largest logit down and by division: no temperature, however small, overflows.
    found = logits.double()
    found = (found - found.max(-1, keepdim=True).values) / temperatures[:, None]
    if top_k is None and top_p is None:
        return found
    ordered, order = found.sort(stable=True, dim=-1, descending=True)  # [R, V]
    if top_k is not None:
        place = torch.arange(found.shape[-1], device=found.device)
        beyond = (place >= top_k[:, None]) & (top_k > 0)[:, None]
        ordered = ordered.masked_fill(beyond, -torch.inf)
    if top_p is not None:
        # Off above one: rounded sums must not cut a row's tail because its neighbour has a top_p.
        limits = torch.where(top_p < 1, top_p, torch.inf)[:, None]
        weights = ordered.exp()
        sums = weights.cumsum(-1)
        # A token stays while the weight before it is below p of all; the first one always stays.
        before = sums - weights
        cut = (before >= limits * sums[:, -1:]) & (before > 0)
        ordered = ordered.masked_fill(cut, -torch.inf)
    return torch.full_like(found, -torch.inf).scatter(-1, order, ordered)


def draw(weights: Tensor, numbers: Tensor) -> Tensor:
    """Tokens [R] by inverting the cumulative sums of [R, V] at these shares of them, [0, 1)."""
    sums = weights.cumsum(-1)  # [R, V]
    # Of the last sum, whatever rounding made of it: every number lies inside.
    found = torch.searchsorted(sums, numbers[:, None] * sums[:, -1:], right=True)
    return found[:, 0].clamp(max=weights.shape[-1] - 1)
