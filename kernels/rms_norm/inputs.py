"""Inputs of RMSNorm, and the one place where they are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

EPS = 1e-5


class Inputs(NamedTuple):
    """The arguments of every implementation, in order."""

    x: Tensor  # [T, D]
    residual: Tensor | None  # [T, D]
    weight: Tensor  # [D]
    eps: float


def make(
    shape: Mapping[str, int], dtype: torch.dtype, generator: torch.Generator, device: str = "cpu"
) -> Inputs:
    """Draw inputs of a shape of the spec, in float32 on the generator's device, then rounded.

    On device "meta" nothing is drawn. Rows differ in size by up to a factor of 1,000, and one row
    in 7 is so small that `eps` decides its norm.
    """
    T, D = shape["T"], shape["D"]
    rows = 2 * T if shape["strided"] else T
    meta = device == "meta"
    where = torch.device("meta") if meta else generator.device

    def draw(*size: int) -> Tensor:
        made = torch.empty(size, device=where)
        return made if meta else made.normal_(generator=generator)

    scale = torch.logspace(-2, 1, rows, device=where)[:, None]
    scale[6::7] = 3e-4
    x = (draw(rows, D) * scale).to(device, dtype)
    residual = (draw(rows, D) * scale).to(device, dtype) if shape["residual"] else None
    weight = (1 + 0.1 * draw(D)).to(device, dtype)
    if shape["strided"]:
        # Part of something wider as well: its stride is not that of x.
        wider = None if residual is None else torch.cat([residual, residual], 1)[::2, :D]
        return Inputs(x[::2], wider, weight, EPS)
    return Inputs(x, residual, weight, EPS)
