"""Driving an engine: what is stamped, what is refused, and that nothing survives a repetition."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

from harness.engine.request import Emission, Request
from harness.measure.clock import Clock
from harness.measure.generate import drive
from harness.measure.latency import metrics, timings
from harness.measure.trace import ClockError, EngineError, MeasurementError

Scripted = Callable[..., Any]
PROMPTS = ((1, 2, 3), (4, 5, 6))


def test_times_are_the_scripts(scripted: Scripted) -> None:
    """A prefill of 1000 ns and steps of 100; one reading of the clock falls into each gap."""
    engine = scripted([1000, 100])
    trace = drive(engine, PROMPTS, 4, engine.clock())
    first, second = timings(trace)
    # After the first submission: the second one's stamp, the step's start, the step, its end.
    assert first.ttft_ns == 1003
    assert second.ttft_ns == 1002
    assert [b - a for a, b, _ in first.gaps] == [101] * 3
    assert [step.duration_ns for step in trace.steps] == [1001, 101, 101, 101]
    assert engine.resets == 1


def test_steps_without_an_emission_are_legal(scripted: Scripted) -> None:
    """Chunked prefill and block diffusion stay silent for most of their steps."""
    engine = scripted([10], lambda e, r: (7, 8) if e.steps % 3 == 0 else ())
    trace = drive(engine, PROMPTS, 4, engine.clock())
    assert [step.tokens for step in trace.steps] == [0, 0, 4, 0, 0, 4]
    assert len(trace.by_request[0]) == 2


def test_an_empty_first_chunk_is_no_first_token(scripted: Scripted) -> None:
    """sglang#9585: an emission without tokens gives no time to first token of almost zero."""
    engine = scripted([5, 1000], lambda e, r: () if e.steps == 1 else (7,))
    trace = drive(engine, PROMPTS, 2, engine.clock())
    assert timings(trace)[0].ttft_ns > 1000


def test_a_request_that_ends_without_a_token_is_an_error(scripted: Scripted) -> None:
    engine = scripted([10])

    def nothing() -> list[Emission]:
        engine.now += 10
        engine.running.clear()
        return [Emission(0, (), True, "length"), Emission(1, (7,), True, "length")]

    engine.step = nothing
    trace = drive(engine, PROMPTS, 2, engine.clock())
    with pytest.raises(MeasurementError, match="request 0 emitted no token"):
        metrics([trace], lookahead=0)


def test_an_engine_that_is_stuck_is_named(scripted: Scripted) -> None:
    engine = scripted([10])
    engine.step = list
    with pytest.raises(EngineError, match="it is stuck"):
        drive(engine, PROMPTS, 2, engine.clock())


def test_a_refused_request_is_an_error(scripted: Scripted) -> None:
    engine = scripted([10])
    engine.step = lambda: engine.running.clear() or [Emission(0, (), True, "refused")]
    with pytest.raises(EngineError, match="refused request 0"):
        drive(engine, PROMPTS, 2, Clock())


@pytest.mark.parametrize("request_id", [0, 99])
def test_tokens_of_nobody_are_an_error(scripted: Scripted, request_id: int) -> None:
    """Request 99 was never submitted; request 0 had finished a step earlier."""
    engine = scripted([10])
    plain = engine.step

    def step() -> list[Emission]:
        emissions: list[Emission] = plain()
        return [*emissions, Emission(request_id, (7,), request_id == 0, "length")]

    engine.step = step
    with pytest.raises(MeasurementError, match="not submitted or had finished"):
        drive(engine, PROMPTS, 3, engine.clock())


def test_an_engine_that_forgets_its_requests_is_an_error(scripted: Scripted) -> None:
    engine = scripted([10])
    engine.submit = lambda request: None
    with pytest.raises(MeasurementError, match="has no work"):
        drive(engine, PROMPTS, 3, engine.clock())


def test_a_step_that_takes_no_time_is_refused(scripted: Scripted) -> None:
    engine = scripted([10])
    with pytest.raises(ClockError, match="a step took 0 ns"):
        drive(engine, PROMPTS, 3, Clock(lambda: 5))


def test_garbage_is_not_collected_while_stamping(scripted: Scripted) -> None:
    seen: list[bool] = []

    def emit(engine: Any, request: Request) -> tuple[int, ...]:
        seen.append(gc.isenabled())
        return (7,)

    engine = scripted([10], emit)
    drive(engine, PROMPTS, 2, engine.clock())
    assert seen
    assert not any(seen)
    assert gc.isenabled()


def test_a_list_used_again_is_read_in_its_step(scripted: Scripted) -> None:
    """An engine that fills one list anew in every step emits different tokens each time."""
    engine = scripted([10], lambda e, r: (e.steps,))
    plain = engine.step
    reused: list[Emission] = []

    def step() -> list[Emission]:
        reused[:] = plain()
        return reused

    engine.step = step
    trace = drive(engine, PROMPTS, 3, engine.clock())
    assert trace.tokens(0) == trace.tokens(1) == (1, 2, 3)


class Late(Emission):
    """Its tokens are worked out when somebody asks for them."""


@pytest.mark.parametrize(
    "late",
    [Late(0, (7,), False), Emission(0, [7], False), Emission(0, (True,), False)],  # type: ignore[arg-type]
    ids=["another class", "a list", "another number"],
)
def test_tokens_that_need_not_be_known_are_refused(scripted: Scripted, late: Emission) -> None:
    """A technique that computed on access, after the stamp, seemed twice as fast as its baseline;
    tensors of a GPU that is still busy would do the same by accident."""
    engine = scripted([10])
    plain = engine.step
    engine.step = lambda: [late, *plain()[1:]]
    with pytest.raises(MeasurementError, match="need not have been known"):
        drive(engine, PROMPTS, 3, engine.clock())
