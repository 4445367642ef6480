"""Leaves with exit code 0 and without an answer."""

from __future__ import annotations

import os

from harness.engine.request import Emission
from harness.selftest.wrapper import Wrapped


class Fake(Wrapped):
    """Leaves in its first step."""

    def step(self) -> list[Emission]:
        """Leave."""
        os._exit(0)
