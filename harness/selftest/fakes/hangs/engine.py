"""Sleeps long once, then works; only a timeout tells."""

from __future__ import annotations

import time
from typing import Any

from harness.engine.request import Emission
from harness.selftest.wrapper import Wrapped

# Three times the timeout of its trial, and not for ever: an instrument that knows no timeout must
# be seen to fail, not waited for.
SLEEP_S = 45.0


class Fake(Wrapped):
    """Hangs in its first step."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._hung = False

    def step(self) -> list[Emission]:
        """Hang once."""
        if not self._hung:
            self._hung = True
            time.sleep(SLEEP_S)
        return super().step()
