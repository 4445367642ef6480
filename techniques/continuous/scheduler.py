"""Decides at every step who feeds how many tokens, who enters, and who gives way."""

from __future__ import annotations

from typing import Any

from harness.engine.request import Emission, Sequence
from harness.engine.scheduler import Run, View
from harness.plan import EnginePlan, Trait
from harness.techniques.continuous import LEAST_BUDGET, Options


class Continuous:
    """Iteration-level scheduling over any cache. Sources: Orca, OSDI 2022, algorithm 1 (admission
    by room, first come first served); PagedAttention, arXiv:2309.06180, 4.5 (preemption of the last
    by recomputation or swapping); Sarathi-Serve, arXiv:2403.02310, 4.2 (chunks beside decodes).
    """

    def __init__(self, plan: EnginePlan, options: Options) -> None:
        self._options = options
        self._slots = plan.limits.slots
        self._align = plan.limits.align
        # Only where sequences grow into room that nobody reserved for them.
        self._headroom = options.headroom if Trait.GROWS in plan.traits else 0.0
        # A step must be able to feed what a decoder takes at once; and a whole prompt beside all
        # others' tokens, or it waits until they are done, and everybody behind it too.
        least = plan.limits.align + plan.limits.lookahead
        whole = 0 if options.chunk else plan.limits.max_tokens + plan.limits.slots
        self._budget = max(options.budget or max(LEAST_BUDGET, whole), least)
        # Where a step settles one token of a sequence, no more and no less, what a sequence feeds
        # next is known: these runs are granted together, without asking for each.
        self._one_each = plan.limits.lookahead == 0 and plan.limits.align == 1
        self._one_each = self._one_each and Trait.INCREMENTAL in plan.traits
        self._steady: dict[int, Run] = {}
        # Sequences whose prompts, or whose tokens after a preemption, are not all fed yet.
        self._entering: set[int] = set()
        self._swapped: dict[int, list[Any]] = {}
        self._last: Sequence | None = None  # of the queue, when it was put in order
        self._blocked: tuple[int, int | None] | None = None
        self._counts = dict.fromkeys(
            ("preemptions", "swaps_out", "swaps_in", "chunks", "prefix_asked", "prefix_found"), 0
        )

    def schedule(self, view: View) -> list[Run]:
        """The runs of one step, room reserved."""
        self._put_in_order(view)
        self._swap_in(view)
        runs: list[Run] = []
        budget = self._budget
        if self._options.first == "prefill":
            self._feed_prompts(view, runs, budget)
            if runs:
                return runs
            self._decode(view, runs, budget)
        else:
            left = self._decode(view, runs, budget)
            self._feed_prompts(view, runs, left)
        if not runs and (view.running or view.waiting):
            self._make_way(view, runs)
        return runs

    def _decode(self, view: View, runs: list[Run], left: int) -> int:
        """Sequences whose prompts are in, from the first that entered; the budget that is left.

        Where room runs out the last sequence gives way, at worst the one that asks.
        """
        store, lookahead = view.store, view.decoder.lookahead
        running, entering, steady = view.running, self._entering, self._steady
        if steady and len(steady) <= left and store.extend(steady):
            runs.extend(steady.values())
            left -= len(steady)
        else:
            steady.clear()
        if len(running) == len(steady) + len(entering):
            return left
        i = 0
        while i < len(running):
            sequence = running[i]
            i += 1
            if sequence.id in entering or sequence.id in steady:
                continue
            pending = view.pending(sequence)
            run = self._share(sequence, pending, lookahead(sequence), left, runs)
            if run is None:
                continue
            while not store.reserve(sequence.id, run.certain + run.ahead):
                victim = _last_without_run(running, runs)
                if victim is sequence and len(running) == 1:
                    raise MemoryError(f"request {sequence.request.id} alone does not fit the cache")
                self._preempt(view, victim)
                if victim is sequence:
                    return left
            self._grant(run, pending, runs)
            left -= run.certain + run.ahead
        return left

    def _feed_prompts(self, view: View, runs: list[Run], left: int) -> None:
        """Prompts that are partly in, then those that wait."""
        if self._entering:
            for sequence in [s for s in view.running if s.id in self._entering]:
                pending, ahead = view.pending(sequence), view.decoder.lookahead(sequence)
                run = self._share(sequence, pending, ahead, left, runs)
                if run is not None and view.store.reserve(sequence.id, run.certain + run.ahead):
                    self._grant(run, pending, runs)
                    left -= run.certain + run.ahead
        while view.waiting and left > 0 and self._has_slot(view):
            run = self._enter(view, view.waiting[0], left, runs)
            if run is None:
                return
            view.running.append(view.waiting.popleft())
            self._grant(run, view.pending(run.sequence), runs)
            left -= run.certain + run.ahead

    def _share(
        self, sequence: Sequence, pending: int, ahead: int, left: int, runs: list[Run]
    ) -> Run | None:
        """What a sequence may feed of what it wants to, given the budget; None: nothing."""
        if pending + ahead <= left:
            return Run(sequence, pending, ahead)
        if pending <= left and ahead:
            # Guesses are given up before certain tokens are.
            return Run(sequence, pending, 0)
        if self._options.chunk:
            piece = min(pending, left) // self._align * self._align
            return Run(sequence, piece, 0) if piece > 0 else None
        return None if runs else Run(sequence, pending, ahead)

    def _grant(self, run: Run, pending: int, runs: list[Run]) -> None:
        """Note whether all of a prompt is in with this run."""
        if run.certain < pending:
            self._entering.add(run.sequence.id)
            self._counts["chunks"] += 1
        else:
            self._entering.discard(run.sequence.id)
            if self._one_each and run.ahead == 0:
                self._steady[run.sequence.id] = Run(run.sequence, 1, 0)
        runs.append(run)

    def _enter(self, view: View, sequence: Sequence, left: int, runs: list[Run]) -> Run | None:
        """The first run of a waiting sequence, if there is room for it and some beside it."""
        store, room = view.store, view.store.room()
        if self._blocked == (sequence.id, room):
            return None
        held = view.admit(sequence)
        pending = view.pending(sequence)
        run = self._share(sequence, pending, view.decoder.lookahead(sequence), left, runs)
        if run is None:
            store.free(sequence.id)
            return None
        if not store.reserve(sequence.id, run.certain + run.ahead) or not self._leaves_room(view):
            store.free(sequence.id)
            self._blocked = (sequence.id, room)
            return None
        self._blocked = None
        if not sequence.entered:
            self._counts["prefix_asked"] += len(sequence.tokens)
            self._counts["prefix_found"] += held
        return run

    def _leaves_room(self, view: View) -> bool:
        """Whether enough of the cache is free for what runs to grow."""
        room, places = view.store.room(), view.store.longest()
        if not self._headroom or not view.running or room is None or places is None:
            return True
        return room >= self._headroom * places

    def _has_slot(self, view: View) -> bool:
        """Whether one more request may run; several answers of one take a place each."""
        taken = sum(1 + sequence.branches for sequence in view.running)
        return not taken or taken + 1 + view.waiting[0].branches <= self._slots

    def _make_way(self, view: View, runs: list[Run]) -> None:
        """Nothing can go on: half-fed prompts hold what each of them needs. The last one leaves."""
        while not runs and len(view.running) > 1:
            self._preempt(view, view.running[-1])
            self._feed_prompts(view, runs, self._budget)
        if not runs:
            first = [*view.running, *view.waiting][0]
            raise MemoryError(f"request {first.request.id} alone does not fit the cache")

    def _preempt(self, view: View, victim: Sequence) -> None:
        """Take a sequence's room and put it in front of the queue."""
        self._counts["preemptions"] += 1
        if self._options.preempt == "swap" and victim.id not in self._entering:
            self._swapped[victim.id] = view.store.export(victim.id)
            self._counts["swaps_out"] += 1
        self._entering.discard(victim.id)
        self._steady.pop(victim.id, None)
        view.store.free(victim.id)
        view.decoder.free(victim)
        view.running.remove(victim)
        view.waiting.appendleft(victim)

    def _swap_in(self, view: View) -> None:
        """Bring back state from host memory, the first of the queue first, while there is room."""
        while view.waiting and view.waiting[0].id in self._swapped and self._has_slot(view):
            sequence = view.waiting[0]
            room = view.store.room()
            if self._blocked == (sequence.id, room):
                return
            if not view.store.import_(sequence.id, self._swapped[sequence.id]) or not (
                self._leaves_room(view)
            ):
                view.store.free(sequence.id)
                self._blocked = (sequence.id, room)
                return
            self._blocked = None
            del self._swapped[sequence.id]
            self._counts["swaps_in"] += 1
            view.running.append(view.waiting.popleft())

    def _put_in_order(self, view: View) -> None:
        """The shortest prompt first, behind those that lost their room."""
        waiting = view.waiting
        if self._options.policy == "fcfs" or not waiting or waiting[-1] is self._last:
            return
        ordered = sorted(waiting, key=lambda s: (not s.entered, len(s.tokens)))
        waiting.clear()
        waiting.extend(ordered)
        self._last = waiting[-1]

    def release(self, view: View, emissions: list[Emission]) -> list[Emission]:
        """At once."""
        del view
        return emissions

    def retired(self, view: View) -> list[Sequence]:
        """Whatever has met its stop condition leaves before the next step."""
        finished = [sequence for sequence in view.running if sequence.finished]
        for sequence in finished:
            self._steady.pop(sequence.id, None)
        return finished

    def counters(self) -> dict[str, int]:
        """How often sequences gave way, were swapped, fed a piece; prompt tokens asked, found."""
        return self._counts

    def reset(self) -> None:
        """Forget every sequence. The counts go on."""
        self._entering.clear()
        self._steady.clear()
        self._swapped.clear()
        self._last = self._blocked = None


def _last_without_run(running: list[Sequence], runs: list[Run]) -> Sequence:
    """Who gives way: the last that entered, of those that have no run in this step yet."""
    granted = {run.sequence.id for run in runs}
    return next(sequence for sequence in reversed(running) if sequence.id not in granted)
