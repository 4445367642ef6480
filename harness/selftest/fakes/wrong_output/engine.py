"""Replaces the last token, which no later token depends on."""

from __future__ import annotations

from harness.engine.request import Emission
from harness.selftest.wrapper import Wrapped


class Fake(Wrapped):
    """Right logits, one wrong token."""

    def step(self) -> list[Emission]:
        """The real step, with another token at the end of a request."""
        return [_spoilt(e) if e.finished else e for e in super().step()]


def _spoilt(emission: Emission) -> Emission:
    *kept, last = emission.token_ids
    tokens = (*kept, 1 if last == 0 else 0)
    return Emission(emission.request_id, tokens, emission.finished, emission.reason)
