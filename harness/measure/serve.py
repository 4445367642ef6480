"""One run of a serve point: requests come by the clock, whatever the engine is doing.

The loop is open: a request is due when the workload says so, and all its times count from then. It
is handed in at the first step's end after that, since the engine does one step at a time; what is
later than that is the generator's own fault and is kept as its lateness.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from harness.engine.request import Emission, Request
from harness.measure.clock import Clock
from harness.measure.generate import Drivable, quiet, require_known
from harness.measure.trace import ClockError, EngineError, MeasurementError

# Sleeping is this much too long now and then; the rest of a wait is spent looking at the clock.
_SLEEP_SLACK_NS = 1_000_000


class Servable(Drivable, Protocol):
    """What the driver needs of an engine beside submit and step."""

    entered: list[int]

    def counters(self) -> dict[str, int]:
        """Numbers of this moment and sums so far."""


@dataclass(frozen=True)
class Due:
    """A request and when it is due, in ns after the run's start."""

    at_ns: int
    request: Request


@dataclass(frozen=True)
class Answered:
    """Tokens of one answer that came out of one step; the stamp is that step's end."""

    request: int
    sample: int
    stamp_ns: int
    token_ids: tuple[int, ...]


@dataclass(frozen=True)
class ServeStep:
    """One iteration, from the end of the one before it, or of a wait, to its own end."""

    start_ns: int
    end_ns: int
    tokens: int  # emitted
    counters: dict[str, int]  # the engine's, at its end


@dataclass(frozen=True)
class Served:
    """What a run left behind. All stamps are in ns after its start, waits that were skipped
    counted as if they had been waited."""

    due: tuple[Due, ...]
    submitted_ns: tuple[int, ...]  # when each was handed in
    late_ns: tuple[int, ...]  # how much later than it could have been
    entered_ns: dict[int, int]  # request: start of the step that first fed it
    answers: tuple[Answered, ...]
    finished: dict[tuple[int, int], str]  # (request, sample): reason
    refused: dict[int, str]  # request: why
    steps: tuple[ServeStep, ...]
    idle_ns: int  # nothing was there to do
    skipped_ns: int  # of that, what was not waited for

    @cached_property
    def by_answer(self) -> dict[tuple[int, int], tuple[Answered, ...]]:
        """Emissions of each answer, in order."""
        found: dict[tuple[int, int], list[Answered]] = {}
        for answered in self.answers:
            found.setdefault((answered.request, answered.sample), []).append(answered)
        return {key: tuple(each) for key, each in found.items()}

    @property
    def duration_ns(self) -> int:
        """The whole run: first request due to the end of the last step."""
        return self.steps[-1].end_ns - self.due[0].at_ns

    def tokens(self, request: int, sample: int = 0) -> tuple[int, ...]:
        """Everything emitted for an answer."""
        return tuple(t for a in self.by_answer.get((request, sample), ()) for t in a.token_ids)


class _Now:
    """Time since the start, skipped waits included."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._start = clock.stamp()
        self.skipped_ns = 0
        self.idle_ns = 0

    def read(self) -> int:
        """In ns."""
        return self._clock.stamp() - self._start + self.skipped_ns

    def wait(self, until_ns: int, *, skip: bool) -> int:
        """Let time pass until then, or go there at once; the time when it is over."""
        before = now = self.read()
        if skip and now < until_ns:
            self.skipped_ns += until_ns - now
            now = until_ns
        while now < until_ns:
            if until_ns - now > 2 * _SLEEP_SLACK_NS:
                time.sleep((until_ns - now - _SLEEP_SLACK_NS) / 1e9)
            now = self.read()
        self.idle_ns += now - before
        return now


def serve(engine: Servable, due: Sequence[Due], clock: Clock, *, skip_idle: bool = False) -> Served:
    """Run a workload from a reset engine, and give what happened.

    Args:
        due: requests in order of time, ids all different.
        skip_idle: go on to the next request at once when nothing is there to do.

    Raises:
        ClockError: a step took no time by the clock.
        EngineError: the engine steps and steps and nothing comes.
        MeasurementError: tokens for a request that was not handed in or has finished, or tokens
            that need not have been known when the clock was read.
    """
    engine.reset()
    base = engine.counters()
    patience = 4 * max(len(d.request.prompt) + d.request.max_new_tokens for d in due) + 100
    patience *= max(1, len(due))
    submitted: list[int] = []
    late: list[int] = []
    entered: dict[int, int] = {}
    seen: list[tuple[int, int, tuple[Emission, ...], dict[str, int]]] = []
    silent = place = 0
    with quiet():
        now = _Now(clock)
        last = could = 0
        while place < len(due) or engine.has_work:
            if not engine.has_work and due[place].at_ns > last:
                could = due[place].at_ns
                last = now.wait(could, skip=skip_idle)
            while place < len(due) and due[place].at_ns <= last:
                at, request = due[place].at_ns, due[place].request
                stamp = now.read()
                engine.submit(request)
                submitted.append(stamp)
                late.append(stamp - max(at, could))
                place += 1
            if not engine.has_work:
                continue
            start = last
            emissions = tuple(engine.step())
            last = could = now.read()
            for request_id in engine.entered:
                entered.setdefault(request_id, start)
            seen.append((start, last, emissions, engine.counters()))
            silent = 0 if emissions else silent + 1
            if silent > patience:
                raise EngineError(
                    f"the engine made {silent} steps in a row without an emission, with "
                    f"{len(due)} requests; it is stuck"
                )
    found = _checked(due, seen, base)
    return Served(
        tuple(due), tuple(submitted), tuple(late), entered, *found, now.idle_ns, now.skipped_ns
    )


def _checked(
    due: Sequence[Due],
    seen: Sequence[tuple[int, int, tuple[Emission, ...], dict[str, int]]],
    base: dict[str, int],
) -> tuple[tuple[Answered, ...], dict[tuple[int, int], str], dict[int, str], tuple[ServeStep, ...]]:
    """Sort out what the loop saw. Sums that the engine counted before are taken off."""
    wanted = {d.request.id: d.request.samples for d in due}
    assert len(wanted) == len(due), "two requests have the same id"
    finished: dict[tuple[int, int], str] = {}
    refused: dict[int, str] = {}
    answers: list[Answered] = []
    steps: list[ServeStep] = []
    for start, end, emissions, counted in seen:
        if end <= start:
            raise ClockError(f"a step took {end - start} ns by the clock; that is no duration")
        tokens = 0
        for emission in emissions:
            require_known(emission)
            key = (emission.request_id, emission.sample)
            known = emission.sample < wanted.get(emission.request_id, 0)
            if not known or key in finished or emission.request_id in refused:
                raise MeasurementError(
                    f"the engine emitted for request {emission.request_id}, which was not "
                    "submitted or had finished"
                )
            if emission.reason == "refused":
                refused[emission.request_id] = emission.sentence or "no reason was given"
            elif emission.finished:
                finished[key] = emission.reason or "length"
            if emission.token_ids:
                answers.append(Answered(*key, end, emission.token_ids))
                tokens += len(emission.token_ids)
        # Sums go up only; what was counted in earlier runs of the engine is not this run's.
        own = {k: v - base.get(k, 0) if k in SUMS else v for k, v in counted.items()}
        steps.append(ServeStep(start, end, tokens, own))
    if not steps:
        raise MeasurementError(f"the engine took {len(due)} requests and made no step")
    missing = Counter(r for r, n in wanted.items() if r not in refused for s in range(n)
                      if (r, s) not in finished)  # fmt: skip
    if missing:
        raise MeasurementError(
            f"request {next(iter(missing))} was never finished, and the engine has no work"
        )
    return tuple(answers), finished, refused, tuple(steps)


# The counters that are sums since the engine was built; the others are of the moment.
SUMS = frozenset(
    ("preemptions", "swaps_out", "swaps_in", "chunks", "prefix_asked", "prefix_found",
     "blocks_copied", "blocks_evicted")
)  # fmt: skip
