"""Admits a whole batch, and nobody else until it is done."""

from __future__ import annotations

from dataclasses import replace

from harness.engine.request import Emission, Sequence
from harness.engine.scheduler import Run, View
from harness.plan import EnginePlan
from harness.techniques.static import Options


class Static:
    """First come, first served, a batch of `batch` or `limits.slots` sequences at a time."""

    def __init__(self, plan: EnginePlan, options: Options) -> None:
        self._batch = min(options.batch or plan.limits.slots, plan.limits.slots)
        self._max_tokens = plan.limits.max_tokens
        self._lookahead = plan.limits.lookahead
        self._pad_finished = options.pad_finished
        self._emit_at_end = options.emit_at_end
        self._held_back: list[Emission] = []

    def schedule(self, view: View) -> list[Run]:
        """Every sequence of the batch, each with all its pending tokens."""
        if not view.running:
            self._admit(view)
        runs = []
        for sequence in [*view.running]:
            pending = view.pending(sequence)
            if sequence.finished:
                # Only padding: a row that is full, or has nothing to feed, can be left out.
                full = len(sequence.tokens) > self._max_tokens
                if not full and pending > 0 and view.store.reserve(sequence.id, pending):
                    runs.append(Run(sequence, pending, 0))
                continue
            ahead = view.decoder.lookahead(sequence)
            if view.store.reserve(sequence.id, pending + ahead):
                runs.append(Run(sequence, pending, ahead))
            else:
                self._put_back(view, sequence)
        return runs

    def _admit(self, view: View) -> None:
        """A whole batch: as many sequences as find room for all that they will ever hold."""
        while view.waiting and len(view.running) < self._batch:
            sequence = view.waiting[0]
            held = view.admit(sequence)
            whole = len(sequence.tokens) + sequence.remaining - 1 + self._lookahead
            if not view.store.reserve(sequence.id, whole - held):
                view.store.free(sequence.id)
                if not view.running:
                    raise MemoryError(f"request {sequence.request.id} alone does not fit the cache")
                return
            view.running.append(view.waiting.popleft())

    def _put_back(self, view: View, sequence: Sequence) -> None:
        """An answer that branched off asks for more than was reserved: it joins the next batch."""
        if len(view.running) == 1:
            raise MemoryError(f"request {sequence.request.id} alone does not fit the cache")
        view.running.remove(sequence)
        view.store.free(sequence.id)
        view.decoder.free(sequence)
        view.waiting.appendleft(sequence)

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
    """One emission an answer, with all its tokens in order."""
    merged: dict[tuple[int, int], Emission] = {}
    for emission in emissions:
        answer = (emission.request_id, emission.sample)
        before = merged.get(answer)
        tokens = (before.token_ids if before else ()) + emission.token_ids
        merged[answer] = replace(emission, token_ids=tokens)
    return list(merged.values())
