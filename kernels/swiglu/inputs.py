"""Inputs of SwiGLU, and the one place where they are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor


class Inputs(NamedTuple):
    """The arguments of every implementation, in order."""

    gate_up: Tensor  # [T, 2F]


def make(
    shape: Mapping[str, int], dtype: torch.dtype, generator: torch.Generator, device: str = "cpu"
) -> Inputs:
    """Draw inputs of a shape of the spec, in float32 on the generator's device, then rounded.

    On device "meta" nothing is drawn. Every fifth gate lies far on one side, where the sigmoid is
    nearly 0 or 1.
    """
    rows = 2 * shape["T"] if shape["strided"] else shape["T"]
    size = (rows, 2 * shape["F"])
    if device == "meta":
        drawn = torch.empty(size, device="meta", dtype=dtype)
    else:
        drawn = torch.randn(size, generator=generator, device=generator.device)
        drawn[:, ::5] *= 20
        drawn = drawn.to(device, dtype)
    return Inputs(drawn[::2] if shape["strided"] else drawn)
