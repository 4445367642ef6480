"""Sleeps before each step; longer before the first."""

from __future__ import annotations

import time
from typing import Any

from harness.engine.request import Emission, Request
from harness.selftest.wrapper import Telling

FIRST_S, LATER_S = 0.06, 0.02


class Fake(Telling):
    """The real engine, slowed down."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._first = True

    def submit(self, request: Request) -> None:
        """A repetition begins."""
        self._first = True
        super().submit(request)

    def act(self) -> list[Emission]:
        """Sleep, then step."""
        time.sleep(FIRST_S if self._first else LATER_S)
        self._first = False
        return super().act()
