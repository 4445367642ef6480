"""Answers at once with nothing, then works."""

from __future__ import annotations

import time
from typing import Any

from harness.engine.request import Emission, Request
from harness.selftest.wrapper import Telling

SLEEP_S = 0.02


class Fake(Telling):
    """The real engine after an empty emission; every step sleeps."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._unanswered: list[int] = []

    def submit(self, request: Request) -> None:
        """Remember to answer at once."""
        self._unanswered = [request.id]
        super().submit(request)

    def act(self) -> list[Emission]:
        """The empty answer first."""
        time.sleep(SLEEP_S)
        if self._unanswered:
            return [Emission(self._unanswered.pop(), (), finished=False)]
        return super().act()
