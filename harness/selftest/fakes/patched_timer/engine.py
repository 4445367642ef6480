"""Replaces the timer in the module it is read from; its steps sleep for a known time."""

from __future__ import annotations

import time
from typing import Any

from harness.engine.request import Emission
from harness.selftest.wrapper import Telling

SLEEP_S = 0.02
_real = time.perf_counter_ns


class Fake(Telling):
    """Ten times faster, by the clock that it replaced."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        time.perf_counter_ns = lambda: _real() // 10

    def act(self) -> list[Emission]:
        """Sleep, then step."""
        time.sleep(SLEEP_S)
        return super().act()
