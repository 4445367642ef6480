"""The scheduling slot's contract: who runs in a step, and with how many tokens."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from harness.engine.decoder import Decoder
from harness.engine.request import Emission, Sequence
from harness.engine.store import Store


@dataclass(frozen=True)
class Run:
    """One sequence's share of a step. The scheduler grants, the decoder obeys."""

    sequence: Sequence
    certain: int  # tokens to feed that cannot be rejected
    ahead: int  # proposals granted, room for them reserved


@dataclass
class View:
    """What a scheduler sees and moves sequences between."""

    waiting: deque[Sequence]
    running: list[Sequence]
    store: Store
    decoder: Decoder

    def pending(self, sequence: Sequence) -> int:
        """Certain tokens that are not in the cache yet."""
        return self.decoder.certain(sequence) - self.store.length(sequence.id)

    def admit(self, sequence: Sequence) -> int:
        """Announce a sequence to the store and let it begin with what is held of it; how much that
        is. Before its first `reserve`, and again after it was preempted."""
        request, certain = sequence.request, self.decoder.certain(sequence)
        self.store.expect(sequence.id, len(request.prompt), request.max_new_tokens)
        return self.store.match(sequence.id, sequence.tokens[:certain])


class Scheduler(Protocol):
    """Admits, grants, preempts and retires."""

    def schedule(self, view: View) -> list[Run]:
        """The runs of one step, room reserved. [] only when there is nothing to do."""

    def release(self, view: View, emissions: list[Emission]) -> list[Emission]:
        """Emissions that leave the engine now; the rest may be held back."""

    def retired(self, view: View) -> list[Sequence]:
        """Finished sequences among the running ones that stop being computed."""

    def reset(self) -> None:
        """Forget everything."""


@runtime_checkable
class Counting(Protocol):
    """What a scheduler that counts offers."""

    def counters(self) -> dict[str, int]:
        """Sums so far, such as `preemptions`; see `harness.engine.engine.Engine.counters`."""
