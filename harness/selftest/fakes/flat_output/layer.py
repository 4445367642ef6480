"""Linear layers of zeros, and the reference that agrees with them."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.model.linear import Dense
from harness.technique import TechniqueOptions


class Zero(Dense):
    """x W^T = 0."""

    def __init__(self, name: str, weight: Tensor) -> None:
        super().__init__(name, torch.zeros_like(weight))


def dense(_name: str, weight: Tensor, _options: TechniqueOptions) -> Tensor:
    """Zeros, [out, in] in float64."""
    return torch.zeros_like(weight, dtype=torch.float64)
