"""The one loop: schedule, propose, one forward, verify, keep, emit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.engine.decoder import Decoder, Proposal, Verdict
from harness.engine.request import Emission, Request, Sequence
from harness.engine.runner import Runner
from harness.engine.scheduler import Run, Scheduler, View
from harness.model.batch import Item

# Called with (request id, place, logits [rows, V]); row r decides the token at `place + r`. Never
# called where a decoder fills blocks: there no one row of one step decides a token.
Observer = Callable[[int, int, Tensor], None]


@dataclass(frozen=True)
class Memory:
    """Bytes an engine uses. State is the most that was held when a sequence finished under an
    observer, or what is held now: looking at every finish would be part of the timed step."""

    state_bytes: int
    reserved_bytes: int
    weights_bytes: int


class Engine:
    """Requests in, tokens out. One `step` is one iteration of the schedule."""

    def __init__(
        self, runner: Runner, decoder: Decoder, scheduler: Scheduler, max_tokens: int
    ) -> None:
        self.runner = runner
        self.decoder = decoder
        self.scheduler = scheduler
        self.observer: Observer | None = None
        self._max_tokens = max_tokens
        self._view = View(deque(), [], runner.store, decoder)
        self._refused: list[Emission] = []
        self._held_bytes = 0

    @property
    def has_work(self) -> bool:
        """Whether a request is waiting or running. A step with work may emit nothing."""
        return bool(self._view.waiting or self._view.running or self._refused)

    @property
    def implementations(self) -> dict[str, str]:
        """Which implementation each operation uses: "torch" or "triton"."""
        return self.runner.model.implementations

    def submit(self, request: Request) -> None:
        """Queue a request. One that could never fit, or asks for nothing, is refused by the next
        step."""
        asked = len(request.prompt) + request.max_new_tokens
        if not request.prompt or request.max_new_tokens < 1 or asked > self._max_tokens:
            self._refused.append(Emission(request.id, (), finished=True, reason="refused"))
        else:
            self._view.waiting.append(Sequence(request, list(request.prompt)))

    def reset(self) -> None:
        """Forget every sequence: nothing but the high-water mark of state survives."""
        self._view.waiting.clear()
        self._view.running.clear()
        self.runner.store.reset()
        self.decoder.reset()
        self.scheduler.reset()
        self._refused.clear()

    def memory(self) -> Memory:
        """Bytes of state, of room for it, and of weights."""
        store = self.runner.store
        return Memory(
            state_bytes=max(self._held_bytes, store.held_bytes()),
            reserved_bytes=store.reserved_bytes(),
            weights_bytes=self.runner.model.weights_bytes,
        )

    @torch.inference_mode()
    def step(self) -> list[Emission]:
        """One iteration. Returns what became final; [] is a legal answer while there is work."""
        view, store = self._view, self.runner.store
        refused, self._refused = self._refused, []
        runs = self.scheduler.schedule(view)
        if not runs:
            return refused + self._leave([])
        # Only a run that brings all its certain tokens in can propose and emit.
        ready = [
            run
            for run in runs
            if run.ahead >= self.decoder.min_ahead and run.certain == view.pending(run.sequence)
        ]
        proposals = self.decoder.propose([r.sequence for r in ready], [r.ahead for r in ready])
        items = [_item(run, store.length(run.sequence.id), proposals) for run in runs]
        hidden, batch = self.runner.forward(items, self.decoder.causal_block)

        verdicts: dict[int, Verdict] = {}
        logits: dict[int, Tensor] = {}
        if ready:
            # The head runs on the rows that decide something: the last certain one, and proposals.
            waiting_for = {run.sequence.id for run in ready}
            spans = [
                (batch.cu_seqlens[i] + max(run.certain - 1, 0), batch.cu_seqlens[i + 1])
                for i, run in enumerate(runs)
                if run.sequence.id in waiting_for
            ]
            rows = [row for start, end in spans for row in range(start, end)]
            features = hidden if len(rows) == len(hidden) else hidden[rows]
            scores = self.runner.model.head(features)
            sizes = [end - start for start, end in spans]
            by_run = list(torch.split(scores, sizes))
            features_by_run = list(torch.split(features, sizes))
            judged = self.decoder.verify(
                [r.sequence for r in ready], proposals, by_run, features_by_run
            )
            for run, verdict, part in zip(ready, judged, by_run, strict=True):
                verdicts[run.sequence.id] = verdict
                logits[run.sequence.id] = part

        emissions = []
        for i, run in enumerate(runs):
            sequence = run.sequence
            found = verdicts.get(sequence.id)
            if found is not None:
                held = batch.context_lens[i] + run.certain
                emission = self._keep(sequence, found, held, logits[sequence.id])
                if emission is not None:
                    emissions.append(emission)
            store.settle(sequence.id)
        return refused + self._leave(emissions)

    def _keep(
        self, sequence: Sequence, verdict: Verdict, held: int, logits: Tensor
    ) -> Emission | None:
        """Keep the accepted state and tokens; what to emit, None for a row that is only padding."""
        store = self.runner.store
        padding = sequence.finished is not None
        tokens, kept = verdict.tokens, verdict.kept
        if not padding:
            tokens = tokens[: sequence.remaining]
            eos = sequence.request.eos
            if eos is not None and eos in tokens:
                tokens = tokens[: tokens.index(eos) + 1]
                sequence.finished = "eos"
            if len(tokens) < len(verdict.tokens):
                # The state of what was cut off goes too; the last token's is never held.
                kept = kept[: len(tokens) - 1]
        if kept == list(range(len(kept))):
            store.rewind(sequence.id, held + len(kept))
        else:
            store.select(sequence.id, held, kept)
        if padding:
            sequence.tokens += tokens
            return None
        if self.observer is not None and tokens and self.decoder.causal_block == 1:
            decided = [0, *(offset + 1 for offset in kept)]
            self.observer(sequence.id, len(sequence.tokens), logits[decided])
        sequence.tokens += tokens
        if sequence.finished is None and sequence.remaining == 0:
            sequence.finished = "length"
        if not tokens:
            return None
        done = sequence.finished
        return Emission(sequence.id, tuple(tokens), done is not None, done)

    def _leave(self, emissions: list[Emission]) -> list[Emission]:
        """Free the sequences that retire, and hand out what the scheduler lets go."""
        view = self._view
        if self.observer is not None and any(emission.finished for emission in emissions):
            self._held_bytes = max(self._held_bytes, self.runner.store.held_bytes())
        released = self.scheduler.release(view, emissions)
        for sequence in self.scheduler.retired(view):
            view.running.remove(sequence)
            self.runner.store.free(sequence.id)
            self.decoder.free(sequence)
        return released


def _item(run: Run, length: int, proposals: dict[int, Proposal]) -> Item:
    """What a run feeds: its certain tokens from the cached length on, then its proposal."""
    sequence, certain = run.sequence, run.certain
    tokens = sequence.tokens[length : length + certain]
    proposal = proposals.get(sequence.id)
    if proposal is None or not proposal.tokens:
        return Item(sequence.id, tokens)
    item = Item(sequence.id, tokens + proposal.tokens, certain=certain)
    if proposal.depths is not None:
        item.positions = [*range(length, length + certain)]
        item.positions += [length + certain + depth for depth in proposal.depths]
    if proposal.tree is not None:
        size = certain + len(proposal.tokens)
        mask = torch.ones(size, size, dtype=torch.bool).tril()
        mask[certain:, certain:] = proposal.tree
        item.qq_mask = mask
    return item
