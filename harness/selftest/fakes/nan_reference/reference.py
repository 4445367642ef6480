"""A reference that says nothing."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.technique import TechniqueOptions


def dense(_name: str, weight: Tensor, _options: TechniqueOptions) -> Tensor:
    """NaN, [out, in] in float64."""
    return torch.full_like(weight, torch.nan, dtype=torch.float64)
