"""Dies of SIGSEGV, as a broken extension does."""

from __future__ import annotations

import ctypes

from harness.engine.request import Emission
from harness.selftest.wrapper import Wrapped


class Fake(Wrapped):
    """Takes its process with it."""

    def step(self) -> list[Emission]:
        """Read at address zero."""
        ctypes.string_at(0)
        return super().step()
