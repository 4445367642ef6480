"""NaN compares as neither too large nor too small."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.selftest.wrapper import Wrapped


class Fake(Wrapped):
    """Right but for one number."""

    def shown(self, logits: Tensor) -> Tensor:
        """The logits, the first of them NaN."""
        spoilt = logits.clone()
        spoilt[0, 0] = torch.nan
        return spoilt
