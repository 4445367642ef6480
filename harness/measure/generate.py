"""One repetition of a generate point: submit the batch, step until done, stamp every emission."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from harness.engine.request import Emission, Request
from harness.errors import printable
from harness.measure.clock import Clock
from harness.measure.trace import (
    ClockError,
    Emitted,
    EngineError,
    MeasurementError,
    Step,
    Submission,
    Trace,
)


class Drivable(Protocol):
    """What the driver needs of an engine."""

    @property
    def has_work(self) -> bool:
        """Whether a request is waiting or running."""

    def submit(self, request: Request) -> None:
        """Queue a request."""

    def step(self) -> list[Emission]:
        """One iteration; [] is a legal answer while there is work."""

    def reset(self) -> None:
        """Forget everything."""


def drive(
    engine: Drivable, prompts: Sequence[tuple[int, ...]], new_tokens: int, clock: Clock
) -> Trace:
    """Run one repetition from a reset engine, without an end of sequence, and give its trace.

    The loop only calls and stamps; what it saw is sorted out afterwards, so that the instrument
    costs each step the same few hundred nanoseconds whatever came out.

    Raises:
        ClockError: a stamp went backwards or a step took no time.
        EngineError: the engine steps and steps and nothing comes, or it refuses a request.
        MeasurementError: tokens for a request that was never submitted or has finished, or
            tokens that need not have been known when the clock was read.
    """
    requests = [Request(i, prompt, new_tokens, eos=None) for i, prompt in enumerate(prompts)]
    # A legal engine feeds or settles at least one token a step; four times that is patience.
    patience = 4 * sum(len(prompt) + new_tokens for prompt in prompts) + 100
    submitted: list[int] = []
    seen: list[tuple[int, tuple[Emission, ...]]] = []
    silent = 0
    engine.reset()
    with quiet():
        for request in requests:
            submitted.append(clock.stamp())
            engine.submit(request)
        first_start = clock.stamp()
        while engine.has_work:
            # A copy, made in the step's own time: an engine may use its list again.
            emissions = tuple(engine.step())
            seen.append((clock.stamp(), emissions))
            silent = 0 if emissions else silent + 1
            if silent > patience:
                raise EngineError(
                    f"the engine made {silent} steps in a row without an emission, for "
                    f"{len(requests)} requests of {new_tokens} tokens; it is stuck"
                )
    submissions = [
        Submission(request.id, stamp, len(request.prompt))
        for request, stamp in zip(requests, submitted, strict=True)
    ]
    return _trace(submissions, first_start, seen)


@contextmanager
def quiet() -> Iterator[None]:
    """No garbage collection inside: a collection of torch's objects takes longer than a step."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _trace(
    submissions: Sequence[Submission],
    start: int,
    seen: Sequence[tuple[int, tuple[Emission, ...]]],
) -> Trace:
    """Check what the loop saw, and drop emissions without tokens: they are no first token.

    A step begins where the one before ended: one reading of the clock a step is enough, and the
    steps add up to the whole.
    """
    open_requests = {submission.request for submission in submissions}
    if not seen:
        raise MeasurementError(f"the engine took {len(submissions)} requests and has no work")
    emitted: list[Emitted] = []
    steps: list[Step] = []
    for end, emissions in seen:
        if end <= start:
            raise ClockError(f"a step took {end - start} ns by the clock; that is no duration")
        tokens = 0
        for emission in emissions:
            require_known(emission)
            if emission.request_id not in open_requests:
                raise MeasurementError(
                    f"the engine emitted for request {emission.request_id}, which was not "
                    "submitted or had finished"
                )
            if emission.reason == "refused":
                raise EngineError(
                    f"the engine refused request {emission.request_id}: it does not fit the "
                    "limits the engine was built for"
                )
            if emission.finished:
                open_requests.discard(emission.request_id)
            if emission.token_ids:
                emitted.append(Emitted(emission.request_id, end, emission.token_ids))
                tokens += len(emission.token_ids)
        steps.append(Step(start, end, tokens))
        start = end
    return Trace(tuple(submissions), tuple(emitted), tuple(steps))


def require_known(emission: Emission) -> None:
    """Refuse what could be worked out on access, after the stamp: only plain numbers are known."""
    plain = type(emission) is Emission and type(emission.token_ids) is tuple
    if not plain or any(type(token) is not int for token in emission.token_ids):
        raise MeasurementError(
            f"the engine emitted {printable(repr(emission))}, which is no Emission of a tuple of "
            "ints: its tokens need not have been known when the clock was read"
        )
