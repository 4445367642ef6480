"""Admits a whole batch, and nobody else until it is done."""

from __future__ import annotations

from harness.engine.request import Emission, Sequence
from harness.engine.scheduler import Run, View
from harness.plan import EnginePlan
from harness.techniques.static import Options


class Static:
    """First come, first served, up to `limits.slots` sequences a batch."""

    def __init__(self, plan: EnginePlan, options: Options) -> None:
        self._slots = plan.limits.slots
        self._max_tokens = plan.limits.max_tokens
        self._pad_finished = options.pad_finished
        self._emit_at_end = options.emit_at_end
        self._held_back: list[Emission] = []

    def schedule(self, view: View) -> list[Run]:
        """Every sequence of the batch, each with all its pending tokens."""
        if not view.running:
            while view.waiting and len(view.running) < self._slots:
                view.running.append(view.waiting.popleft())
        runs = []
        for sequence in view.running:
            pending = view.pending(sequence)
            if sequence.finished:
                # Only padding: a row that is full, or has nothing to feed, can be left out.
                full = len(sequence.tokens) > self._max_tokens
                if not full and pending > 0 and view.store.reserve(sequence.id, pending):
                    runs.append(Run(sequence, pending, 0))
                continue
            ahead = view.decoder.lookahead(sequence)
            if not view.store.reserve(sequence.id, pending + ahead):
                raise MemoryError(
                    f"a static batch of {len(view.running)} sequences does not fit its cache"
                )
            runs.append(Run(sequence, pending, ahead))
        return runs

    def release(self, view: View, emissions: list[Emission]) -> list[Emission]:
        """At once, or all when the batch is done."""
        if not self._emit_at_end:
            return emissions
        self._held_back += emissions
        if any(sequence.finished is None for sequence in view.running):
            return []
        released, self._held_back = self._held_back, []
        return _merged(released)

    def retired(self, view: View) -> list[Sequence]:
        """Finished sequences; with `pad_finished` only once all are."""
        finished = [sequence for sequence in view.running if sequence.finished]
        if self._pad_finished and len(finished) < len(view.running):
            return []
        return finished

    def reset(self) -> None:
        """Forget emissions held back."""
        self._held_back.clear()


def _merged(emissions: list[Emission]) -> list[Emission]:
    """One emission a request, with all its tokens in order."""
    merged: dict[int, Emission] = {}
    for emission in emissions:
        before = merged.get(emission.request_id)
        tokens = (before.token_ids if before else ()) + emission.token_ids
        merged[emission.request_id] = Emission(
            emission.request_id, tokens, emission.finished, emission.reason
        )
    return list(merged.values())
