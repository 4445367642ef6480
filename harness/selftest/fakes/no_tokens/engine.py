"""Works while it is watched, then only says that it is done."""

from __future__ import annotations

from harness.engine.request import Emission
from harness.selftest.wrapper import Wrapped


class Fake(Wrapped):
    """Drops its work when nobody looks."""

    def step(self) -> list[Emission]:
        """Say that the only request is finished."""
        if self.watched:
            return super().step()
        self.inner.reset()
        return [Emission(0, (), finished=True, reason="length")]
