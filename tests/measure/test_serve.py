"""The open-loop driver and its metrics, on an engine that plays a script and a clock of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.engine.request import Emission, Request
from harness.measure import serving
from harness.measure.clock import Clock
from harness.measure.serve import Due, Served, serve
from harness.measure.trace import ClockError, EngineError, MeasurementError
from harness.suite.slo import Slo

STEP = 1_000_000  # ns
SLOT_COUNT = 2


@dataclass
class Batched:
    """Two requests at once; a step takes STEP and gives each one token. Counts like an engine."""

    slots: int = SLOT_COUNT
    now: int = 0
    entered: list[int] = field(default_factory=list)
    waiting: list[Request] = field(default_factory=list)
    running: dict[int, list[Any]] = field(default_factory=dict)
    preemptions: int = 40
    emit: Callable[[list[Emission]], list[Emission]] = lambda emissions: emissions
    step_ns: int = STEP

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    def submit(self, request: Request) -> None:
        self.waiting.append(request)

    def step(self) -> list[Emission]:
        self.now += self.step_ns
        self.entered = []
        while self.waiting and len(self.running) < self.slots:
            request = self.waiting.pop(0)
            self.running[request.id] = [request, 0]
            self.entered.append(request.id)
        out = []
        for entry in list(self.running.values()):
            request, given = entry
            entry[1] = given + 1
            done = entry[1] == request.max_new_tokens
            for sample in range(request.samples):
                out.append(Emission(request.id, (5,), done, "length" if done else None, sample))
            if done:
                del self.running[request.id]
        self.preemptions += 1
        return self.emit(out)

    def reset(self) -> None:
        self.waiting.clear()
        self.running.clear()

    def counters(self) -> dict[str, int]:
        running = len(self.running)
        return {
            "running": running, "waiting": len(self.waiting), "batch": max(1, running), "fed": 1,
            "places": 100, "places_held": 10 * running, "places_used": 8 * running,
            "preemptions": self.preemptions, "swaps_out": 0, "prefix_asked": 40, "prefix_found": 10,
        }  # fmt: skip

    def clock(self) -> Clock:
        def read() -> int:
            self.now += 1
            return self.now

        return Clock(read)


def _due(*times_ms: float, new: int = 3, samples: int = 1) -> list[Due]:
    return [
        Due(round(at * 1e6), Request(i, (1, 2), new, samples=samples))
        for i, at in enumerate(times_ms)
    ]


def _serve(*times_ms: float, new: int = 3, engine: Batched | None = None, **keys: Any) -> Served:
    engine = engine or Batched()
    return serve(engine, _due(*times_ms, new=new, **keys), engine.clock(), skip_idle=True)


def _values(served: Served, slo: Slo | None = None) -> dict[str, float | None]:
    return {m.name: m.value for m in serving.metrics(served, SLOT_COUNT, slo, 0)}


def test_times_count_from_when_a_request_was_due() -> None:
    """The second comes in the middle of a step: its wait for the step's end is the server's."""
    served = _serve(0, 0.5)
    first, second = serving.times(served)
    assert first.ttft == pytest.approx(STEP, rel=1e-3)
    assert second.ttft == pytest.approx(1.5 * STEP, rel=1e-3)
    assert second.ttft_submitted == pytest.approx(STEP, rel=1e-3)
    assert second.queue == pytest.approx(0.5 * STEP, rel=1e-3)
    assert second.e2e == pytest.approx(3.5 * STEP, rel=1e-3)
    assert second.tpot == pytest.approx(STEP, rel=1e-3)
    # Nobody could have handed it in sooner.
    assert max(served.late_ns) < 50


def test_who_finds_no_slot_waits_in_the_queue() -> None:
    served = _serve(0, 0, 0)
    queue = [t.queue for t in serving.times(served)]
    assert queue == pytest.approx([0, 0, 3 * STEP], rel=1e-3, abs=50)


def test_idle_time_is_skipped_and_counted() -> None:
    served = _serve(0, 1000)
    assert served.idle_ns == pytest.approx(997e6, rel=1e-3)
    assert served.skipped_ns == served.idle_ns
    assert served.duration_ns == pytest.approx(1003e6, rel=1e-3)
    assert serving.times(served)[1].ttft == pytest.approx(STEP, rel=1e-3)


def test_a_generator_that_sleeps_too_long_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lateness is reported, and is in the request's times."""
    engine = Batched()

    def oversleep(seconds: float) -> None:
        engine.now += round(seconds * 1e9) + 7 * STEP

    monkeypatch.setattr("time.sleep", oversleep)
    served = serve(engine, _due(0, 50), engine.clock())
    assert served.skipped_ns == 0
    assert served.late_ns[1] == pytest.approx(6 * STEP, rel=1e-3)
    assert serving.times(served)[1].ttft == pytest.approx(7 * STEP, rel=1e-3)
    assert _values(served)["generator_lateness"] == served.late_ns[1]


def test_overload_grows_the_queue_and_recovers() -> None:
    """Twice the rate it can do, then a pause: nothing is lost, and the last is served at once."""
    burst = [0.75 * i for i in range(60)]
    served = _serve(*burst, 1000, new=3)
    found = serving.times(served)
    waits = [t.queue / STEP for t in found]
    assert waits[20] < waits[40] < waits[59]
    assert waits[59] == pytest.approx(60 / 2 * 3 - 45, rel=0.1)
    assert found[60].ttft == pytest.approx(STEP, rel=1e-3)
    assert len(found) == 61


def test_metrics_are_the_formulas() -> None:
    served = _serve(*[0] * 10, new=4)
    values = _values(served, Slo(ttft_ms=9.5, tpot_ms=2))
    # Five pairs after each other, four steps each.
    seconds = 20e-3
    assert values["throughput"] == pytest.approx(40 / seconds, rel=1e-3)
    assert values["request_rate"] == pytest.approx(10 / seconds, rel=1e-3)
    assert values["ttft"] == pytest.approx(9 * STEP, rel=1e-3)
    assert values["ttft_p90"] == pytest.approx(17 * STEP, rel=1e-3)
    assert values["ttft_p99"] is None
    assert values["tpot_p90"] == pytest.approx(STEP, rel=1e-3)
    assert values["e2e_p90"] == pytest.approx(20 * STEP, rel=1e-3)
    assert values["queue_time"] == pytest.approx(8 * STEP, rel=1e-3)
    assert values["normalized_latency_p90"] == pytest.approx(5 * STEP, rel=1e-3)
    assert values["itl_p90"] == pytest.approx(STEP, rel=1e-3)
    assert values["itl_p99"] is None
    # Three pairs had their first token within nine steps and a half.
    assert values["goodput"] == pytest.approx(6 / seconds, rel=1e-3)
    assert values["batch_occupancy"] == pytest.approx((15 * 2 + 5) / 20 / 2, rel=1e-3)
    assert values["cache_utilisation"] == pytest.approx(0.2 * 15 / 20, rel=1e-3)
    assert values["cache_waste"] == pytest.approx(0.2)
    assert values["prefix_hit_rate"] is None
    # Sums of earlier runs of the engine are not this run's.
    assert values["preemptions"] == 20


def test_a_percentile_says_what_it_needs() -> None:
    found = {m.name: m for m in serving.metrics(_serve(0, 0, new=1), SLOT_COUNT, None, 0)}
    assert found["ttft_p90"].null_reason == "needs 10 requests, has 2"
    assert found["itl_p50"].null_reason == "needs 1 gaps, has 0"
    assert found["tpot"].null_reason == "every answer's first emission is also its last"
    assert found["goodput"].null_reason == "the suite names no slo"


def test_tokens_that_were_held_back_have_no_times_between_them() -> None:
    engine = Batched()
    held: list[Emission] = []

    def hold(emissions: list[Emission]) -> list[Emission]:
        held.extend(emissions)
        if engine.has_work:
            return []
        tokens: dict[int, int] = {}
        for each in held:
            tokens[each.request_id] = tokens.get(each.request_id, 0) + 1
        held.clear()
        return [Emission(r, (5,) * n, True, "length") for r, n in tokens.items()]

    engine.emit = hold
    values = _values(_serve(0, 0, engine=engine), Slo(tpot_ms=1e6))
    assert values["tpot"] is None
    assert values["itl_p50"] is None
    assert values["goodput"] == 0
    assert values["e2e"] == pytest.approx(3 * STEP, rel=1e-3)


def test_answers_of_one_request_are_told_apart() -> None:
    served = _serve(0, new=4, samples=3)
    assert [len(served.tokens(0, sample)) for sample in range(3)] == [4, 4, 4]
    (found,) = serving.times(served)
    assert found.tokens == 12
    assert found.tpot == pytest.approx(STEP, rel=1e-3)


def test_a_refused_request_is_counted_and_has_no_times() -> None:
    engine = Batched()

    def refuse(emissions: list[Emission]) -> list[Emission]:
        return [
            Emission(e.request_id, (), True, "refused", sentence="request 1 is too long")
            if e.request_id == 1
            else e
            for e in emissions
            if e.request_id != 1 or engine.entered
        ]

    engine.emit = refuse
    served = _serve(0, 0, engine=engine)
    assert served.refused == {1: "request 1 is too long"}
    assert len(serving.times(served)) == 1
    assert _values(served)["refused"] == 1


def test_the_course_of_a_run_is_stored_a_number_a_step() -> None:
    served = _serve(*[0.3 * i for i in range(12)])
    sets = {s.metric: s.values for s in serving.samples(served)}
    steps = len(served.steps)
    assert len(sets["ttft"]) == len(sets["e2e"]) == len(sets["queue_time"]) == 12
    assert sum(sets["timeline_step"]) == served.steps[-1].end_ns
    for name in ("running", "waiting", "batch", "fed", "places_held", "places_used"):
        assert len(sets[f"timeline_{name}"]) == steps
    assert max(sets["timeline_waiting"]) > 3


def _twice(emissions: list[Emission]) -> list[Emission]:
    return [*emissions, *emissions]


def _foreign(emissions: list[Emission]) -> list[Emission]:
    return [*emissions, Emission(99, (1,), False)]


def _lazy(emissions: list[Emission]) -> list[Emission]:
    return [Emission(e.request_id, range(1), e.finished, e.reason) for e in emissions]  # type: ignore[arg-type]


def _endless(emissions: list[Emission]) -> list[Emission]:
    return [Emission(e.request_id, e.token_ids, False) for e in emissions]


@pytest.mark.parametrize(
    ("emit", "message"),
    [
        (_twice, "was not submitted or had finished"),
        (_foreign, "was not submitted or had finished"),
        (_lazy, "is no Emission of a tuple of ints"),
        (_endless, "request 0 was never finished"),
    ],
)
def test_what_cannot_be_a_measurement_is_none(
    emit: Callable[[list[Emission]], list[Emission]], message: str
) -> None:
    with pytest.raises(MeasurementError, match=message):
        _serve(0, engine=Batched(emit=emit))


def test_an_engine_that_is_stuck_is_noticed() -> None:
    class Stuck(Batched):
        def step(self) -> list[Emission]:
            self.now += 1
            return []

    with pytest.raises(EngineError, match="steps in a row without an emission, with 1 requests"):
        _serve(0, engine=Stuck())


def test_a_clock_that_stands_still_is_noticed() -> None:
    engine = Batched()
    with pytest.raises(ClockError, match="took 0 ns"):
        serve(engine, _due(0), Clock(lambda: 5))
