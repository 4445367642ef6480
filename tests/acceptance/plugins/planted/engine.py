"""Adds to each step a share of the processor time that it took."""

from __future__ import annotations

import time

from harness.engine.request import Emission
from harness.selftest.wrapper import Wrapped

SHARE = 0.03


class Fake(Wrapped):
    """The real engine, and then some arithmetic."""

    def step(self) -> list[Emission]:
        """One step, and work for its share of the step's processor time."""
        begun = time.thread_time_ns()
        emissions = super().step()
        until = time.thread_time_ns()
        until += round(SHARE * (until - begun))
        while time.thread_time_ns() < until:
            pass
        return emissions
