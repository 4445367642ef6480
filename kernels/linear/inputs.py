"""Inputs of a linear layer, and the one place where they are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor


class Inputs(NamedTuple):
    """The arguments of every implementation, in order."""

    x: Tensor  # [B, D]
    w: Tensor  # [D, F]


def make(
    shape: Mapping[str, int], dtype: torch.dtype, generator: torch.Generator, device: str = "cpu"
) -> Inputs:
    """Draw inputs of a shape of the spec, in float32 on the generator's device, then rounded."""
    B, D, F = (shape[name] for name in ("B", "D", "F"))
    where = generator.device
    x = torch.randn(B, D, generator=generator, device=where)
    # Scaled as trained weights are, so that outputs are of the size of one.
    w = torch.randn(D, F, generator=generator, device=where) * D**-0.5
    return Inputs(x.to(device, dtype), w.to(device, dtype))
