"""Partial runs in multiples of the decoder's `align`; a victim loses its state and starts over."""

from __future__ import annotations

from harness.engine.request import Emission, Sequence
from harness.engine.scheduler import Run, View
from harness.plan import EnginePlan

from . import Options


class Pieces:
    """Counts pieces and victims, so that a test can assert that there were some."""

    def __init__(self, plan: EnginePlan, options: Options) -> None:
        self._slots = plan.limits.slots
        align = plan.limits.align
        self._piece = max(align, options.piece // align * align)
        self._preempt_every = options.preempt_every
        self._step = 0
        self.pieces = 0
        self.victims = 0

    def schedule(self, view: View) -> list[Run]:
        self._step += 1
        if self._preempt_every and self._step % self._preempt_every == 0 and len(view.running) > 1:
            self._preempt(view)
        else:
            while view.waiting and len(view.running) < self._slots:
                view.running.append(view.waiting.popleft())
        runs = []
        for sequence in view.running:
            pending = view.pending(sequence)
            ahead = 0
            if pending > self._piece:
                pending = self._piece
                self.pieces += 1
            else:
                ahead = view.decoder.lookahead(sequence)
            assert view.store.reserve(sequence.id, pending + ahead)
            runs.append(Run(sequence, pending, ahead))
        return runs

    def _preempt(self, view: View) -> None:
        victim = view.running.pop()
        view.store.free(victim.id)
        view.decoder.free(victim)
        view.waiting.appendleft(victim)
        self.victims += 1

    def release(self, view: View, emissions: list[Emission]) -> list[Emission]:
        return emissions

    def retired(self, view: View) -> list[Sequence]:
        return [sequence for sequence in view.running if sequence.finished]

    def reset(self) -> None:
        self._step = 0
