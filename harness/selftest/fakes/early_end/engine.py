"""Ends a sequence after five tokens when it is not watched."""

from __future__ import annotations

from typing import Any

from harness.engine.request import Emission, Request
from harness.selftest.wrapper import Wrapped

TOKENS = 5


class Fake(Wrapped):
    """Cuts the only request short."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._emitted = 0

    def submit(self, request: Request) -> None:
        """Count anew."""
        self._emitted = 0
        super().submit(request)

    def step(self) -> list[Emission]:
        """The real step, the last of them early."""
        emissions = super().step()
        self._emitted += sum(len(e.token_ids) for e in emissions)
        if self.watched or self._emitted < TOKENS:
            return emissions
        self.inner.reset()
        return [Emission(e.request_id, e.token_ids, True, "eos") for e in emissions]
