"""The one loop: schedule, propose, one forward, verify, keep, emit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from harness.engine.decoder import Decoder, Verdict
from harness.engine.refusal import refusal, refuse_twins
from harness.engine.request import Emission, Request, Sequence
from harness.engine.rows import Judged, deciding, item
from harness.engine.runner import Runner
from harness.engine.sampling import branch_seed
from harness.engine.scheduler import Counting, Run, Scheduler, View

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
        self._live: dict[int, int] = {}  # answers that are still to be finished, by request
        self._branches = 0
        self._fed = self._batch = 0
        self.entered: list[int] = []  # requests that were fed for the first time in the last step

    @property
    def has_work(self) -> bool:
        """Whether a request is waiting or running. A step with work may emit nothing."""
        return bool(self._view.waiting or self._view.running or self._refused)

    @property
    def implementations(self) -> dict[str, str]:
        """Which implementation each operation uses: "torch" or "triton"."""
        return self.runner.model.implementations

    def submit(self, request: Request) -> None:
        """Queue a request. One that could never be served is refused by the next step.

        UsageError for an id that is still being served.
        """
        refuse_twins(request, self._live)
        longest, vocab = self.runner.store.longest(), self.runner.model.vocab
        reason = refusal(request, self._max_tokens, longest, vocab)
        if reason is None and request.samples > 1 and self.decoder.min_ahead:
            reason = f"request {request.id} asks for several answers, of a decoder of whole blocks"
        if reason is not None:
            refused = Emission(request.id, (), finished=True, reason="refused", sentence=reason)
            self._refused.append(refused)
            return
        self._live[request.id] = request.samples
        branches = request.samples - 1
        self._view.waiting.append(Sequence(request, list(request.prompt), branches=branches))

    def reset(self) -> None:
        """Forget every sequence: nothing but the high-water mark of state survives."""
        self._view.waiting.clear()
        self._view.running.clear()
        self.runner.store.reset()
        self.decoder.reset()
        self.scheduler.reset()
        self._refused.clear()
        self._live.clear()

    def forget_captured(self) -> None:
        """Drop captured steps: what is wrapped around operations now would go on in them."""
        if self.runner.graphs is not None:
            self.runner.graphs.forget()

    def memory(self) -> Memory:
        """Bytes of state, of room for it, and of weights."""
        store = self.runner.store
        return Memory(
            state_bytes=max(self._held_bytes, store.held_bytes()),
            reserved_bytes=store.reserved_bytes(),
            weights_bytes=self.runner.model.weights_bytes,
        )

    def counters(self) -> dict[str, int]:
        """Numbers of this moment, and sums since the engine was built.

        Of the moment: sequences `running` and `waiting`; `batch` sequences and `fed` tokens of the
        last forward; `places` for tokens that the cache has, `places_held` for sequences,
        `places_used` by entries. Sums are what the store and the scheduler count.
        """
        view = self._view
        found = {
            "running": len(view.running),
            "waiting": len(view.waiting),
            "batch": self._batch,
            "fed": self._fed,
            **self.runner.store.counters(),
        }
        if isinstance(self.scheduler, Counting):
            found |= self.scheduler.counters()
        if self.runner.graphs is not None:
            found |= self.runner.graphs.counters()
        return found

    @torch.inference_mode()
    def step(self) -> list[Emission]:
        """One iteration. Returns what became final; [] is a legal answer while there is work."""
        view, store = self._view, self.runner.store
        refused, self._refused = self._refused, []
        runs = self.scheduler.schedule(view)
        self.entered = _enter(runs)
        if not runs:
            self._fed = self._batch = 0
            return refused + self._leave([])
        # Only a run that brings all its certain tokens in can propose and emit.
        ready = [
            run
            for run in runs
            if run.ahead >= self.decoder.min_ahead and run.certain == view.pending(run.sequence)
        ]
        # Answers branch off where the prompt ends, before anything is guessed.
        proposals = self.decoder.propose(
            [r.sequence for r in ready], [0 if r.sequence.branches else r.ahead for r in ready]
        )
        items = [item(run, store.length(run.sequence.id), proposals) for run in runs]
        hidden, batch = self.runner.forward(items, self.decoder.causal_block)
        self._fed, self._batch = len(batch.tokens), batch.size

        emissions = []
        touched = [run.sequence for run in runs]
        if ready:
            head = self.runner.model.head
            judged, branches = self._branched(deciding(runs, ready, hidden, batch, head))
            touched += branches
            verdicts = self.decoder.verify(
                [j.sequence for j in judged],
                proposals,
                [j.logits for j in judged],
                [j.features for j in judged],
            )
            for each, verdict in zip(judged, verdicts, strict=True):
                emission = self._keep(each.sequence, verdict, each.held, each.logits)
                if emission is not None:
                    emissions.append(emission)
        for sequence in touched:
            store.settle(sequence.id)
        return refused + self._leave(emissions)

    def _branched(self, judged: list[Judged]) -> tuple[list[Judged], list[Sequence]]:
        """Let a request's further answers branch off where its prompt has just been fed.

        They are judged by the same logits, each with noise of its own. One that finds no room waits
        and feeds the prompt for itself. Returns all that is judged, and the sequences that are new.
        """
        view, store = self._view, self.runner.store
        found, new = [], []
        for each in judged:
            found.append(each)
            parent = each.sequence
            for sample in range(1, parent.branches + 1):
                self._branches += 1
                seed = branch_seed(parent.request.sampling.seed, sample)
                sampling = replace(parent.request.sampling, seed=seed)
                request = replace(parent.request, sampling=sampling)
                child = Sequence(request, [*parent.tokens], sample=sample, key=-self._branches)
                if store.fork(parent.id, child.id):
                    view.running.insert(view.running.index(parent) + sample, child)
                    found.append(replace(each, sequence=child))
                    new.append(child)
                else:
                    view.waiting.appendleft(child)
            parent.branches = 0
        return found, new

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
        watched = self.observer is not None and sequence.sample == 0
        if watched and tokens and self.decoder.causal_block == 1:
            decided = [0, *(offset + 1 for offset in kept)]
            assert self.observer is not None
            self.observer(sequence.id, len(sequence.tokens), logits[decided])
        sequence.tokens += tokens
        if sequence.finished is None and sequence.remaining == 0:
            sequence.finished = "length"
        if not tokens:
            return None
        done, request = sequence.finished, sequence.request.id
        return Emission(request, tuple(tokens), done is not None, done, sequence.sample)

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
            self._live[sequence.request.id] -= 1
            if not self._live[sequence.request.id]:
                del self._live[sequence.request.id]
        return released


def _enter(runs: list[Run]) -> list[int]:
    """Requests among these that were never fed before; the next time they were."""
    new = [run.sequence for run in runs if not run.sequence.entered]
    for sequence in new:
        sequence.entered = True
    return [sequence.request.id for sequence in new if not sequence.sample]
