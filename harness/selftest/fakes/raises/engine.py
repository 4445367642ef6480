"""Fails as Python code fails."""

from __future__ import annotations

from harness.engine.request import Emission
from harness.selftest.wrapper import Wrapped


class Fake(Wrapped):
    """Always raises."""

    def step(self) -> list[Emission]:
        """Raise."""
        raise RuntimeError("this fake always raises")
