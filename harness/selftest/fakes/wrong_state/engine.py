"""Reports other bytes than the formula's."""

from __future__ import annotations

from dataclasses import replace

from harness.engine.engine import Memory
from harness.selftest.wrapper import Wrapped


class Fake(Wrapped):
    """Forgot to drop half of it."""

    def memory(self) -> Memory:
        """Twice the state."""
        real = super().memory()
        return replace(real, state_bytes=2 * real.state_bytes)
