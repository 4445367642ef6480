"""Has work and never does it."""

from __future__ import annotations

from harness.engine.request import Emission
from harness.selftest.wrapper import Wrapped


class Fake(Wrapped):
    """Never gets anywhere."""

    def step(self) -> list[Emission]:
        """Nothing, which is a legal answer, but not for ever."""
        return []
