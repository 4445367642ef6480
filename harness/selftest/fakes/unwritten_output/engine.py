"""Memory that was not written may hold the right answer of before."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.selftest.wrapper import Wrapped


class Fake(Wrapped):
    """Shows new memory. Where nobody filled it, the right answer happens to lie there."""

    def shown(self, logits: Tensor) -> Tensor:
        """Whatever the memory holds, in the luckiest case."""
        memory = torch.empty_like(logits)
        filled_on_purpose = bool(memory.isnan().all())
        return memory if filled_on_purpose else logits
