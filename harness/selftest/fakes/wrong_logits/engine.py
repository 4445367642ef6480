"""A small error everywhere, which greedy tokens do not show."""

from __future__ import annotations

from torch import Tensor

from harness.selftest.wrapper import Wrapped


class Fake(Wrapped):
    """Wrong where only numbers tell."""

    def shown(self, logits: Tensor) -> Tensor:
        """One percent too large."""
        return logits * 1.01
