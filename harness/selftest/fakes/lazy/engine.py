"""Emissions whose tokens are computed on access."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.engine.request import Emission
from harness.selftest.wrapper import Wrapped


class Later(tuple[int, ...]):
    """Tokens that could be worked out when somebody looks at them."""

    def __iter__(self) -> Iterator[Any]:
        return super().__iter__()


class Fake(Wrapped):
    """The real engine's emissions with `Later` in them."""

    def step(self) -> list[Emission]:
        """Wrap the tokens."""
        return [
            Emission(e.request_id, Later(e.token_ids), e.finished, e.reason)
            for e in self.inner.step()
        ]
