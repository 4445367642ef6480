"""Computes its first answer and repeats it."""

from __future__ import annotations

import time
from typing import Any

from harness.engine.request import Emission, Request
from harness.selftest.wrapper import Wrapped

# A step that takes no time would be noticed for that.
SLEEP_S = 0.001


class Fake(Wrapped):
    """Repeats the emissions of the repetition that was watched."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._known: list[list[Emission]] = []
        self._to_come: list[list[Emission]] = []

    @property
    def has_work(self) -> bool:
        """Whether something is left to repeat, or to compute."""
        return bool(self._to_come) or super().has_work

    def submit(self, request: Request) -> None:
        """Take the answer out of memory."""
        if self.watched:
            self._known = []
            super().submit(request)
        else:
            self._to_come = list(self._known)

    def step(self) -> list[Emission]:
        """Compute and remember, or repeat."""
        if not self._to_come:
            self._known.append(super().step())
            return self._known[-1]
        time.sleep(SLEEP_S)
        return self._to_come.pop(0)
