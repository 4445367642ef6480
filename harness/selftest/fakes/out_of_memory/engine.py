"""Allocates a pebibyte."""

from __future__ import annotations

import torch

from harness.engine.request import Emission
from harness.selftest.wrapper import Wrapped


class Fake(Wrapped):
    """Runs out of memory in its first step."""

    def step(self) -> list[Emission]:
        """No machine has it, and none would hand it out."""
        torch.empty(1 << 50, dtype=torch.uint8, device=self.inner.runner.device)
        return super().step()
