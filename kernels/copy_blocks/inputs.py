"""Inputs of copy_blocks, and the one place where they are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor


class Inputs(NamedTuple):
    """The arguments of every implementation, in order."""

    source: Tensor  # [P, K, block, H]
    target: Tensor  # [Q, K, block, H]
    sources: Tensor  # [n] int64
    targets: Tensor  # [n] int64


def make(
    shape: Mapping[str, int], dtype: torch.dtype, generator: torch.Generator, device: str = "cpu"
) -> Inputs:
    """Draw inputs of a shape of the spec: shuffled blocks, a source that is copied twice.

    On device "meta" nothing is drawn.
    """
    n = shape["n"]
    size = (2 * n + 3, shape["K"], shape["block"], shape["H"])
    if device == "meta":
        source = torch.empty(size, dtype=dtype, device=device)
        target = source if shape["one"] else torch.empty_like(source)
        ids = torch.empty(n, dtype=torch.int64, device=device)
        return Inputs(source, target, ids, ids)
    where = generator.device
    source = torch.randn(size, generator=generator, device=where).to(device, dtype)
    other = torch.randn(size, generator=generator, device=where).to(device, dtype)
    order = torch.randperm(size[0], generator=generator, device=where)
    sources, targets = order[:n].clone(), order[n : 2 * n]
    sources[-1] = sources[0]
    # Strides of its own, so that one pool's used for the other shows: it is part of a larger one.
    apart = torch.cat([other, other], dim=1)[:, : shape["K"]]
    target = source if shape["one"] else apart
    return Inputs(source, target, sources.to(device), targets.to(device))
