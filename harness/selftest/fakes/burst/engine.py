"""The first token comes one step before the end, all others with the last step."""

from __future__ import annotations

from typing import Any

from harness.engine.request import Emission, Request
from harness.selftest.wrapper import Wrapped


class Fake(Wrapped):
    """Works honestly, and hides when: one gap of one step for all tokens but the first."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._wanted: dict[int, int] = {}
        self._held: dict[int, tuple[int, ...]] = {}

    def submit(self, request: Request) -> None:
        """Note how many tokens there will be."""
        self._wanted[request.id] = request.max_new_tokens
        self._held[request.id] = ()
        super().submit(request)

    def step(self) -> list[Emission]:
        """Hold back, and let go of the first token when one step is missing."""
        shown = []
        for new in self.inner.step():
            held = self._held[new.request_id] + new.token_ids
            self._held[new.request_id] = held
            if new.finished:
                rest = held[1:] if self._wanted[new.request_id] > 1 else held
                shown.append(Emission(new.request_id, rest, True, new.reason))
            elif len(held) == self._wanted[new.request_id] - 1:
                shown.append(Emission(new.request_id, held[:1], finished=False))
        return shown
