"""A whole run of an engine that is wrong, or too quick: refused, without a number."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from harness import worker
from harness.engine.request import Emission
from harness.gates.ambient import restored, state
from harness.hardware.ceilings import Ceilings
from harness.suite.case import GateSettings
from tests.worker.records import MakeJob, Wrap, assert_refused, red, value


def test_remembered_answers_are_caught_after_timing(
    make_job: MakeJob, around: Wrap, around_engine: Any
) -> None:
    """flashinfer-bench#413: an engine that answers from memory once nobody watches is right
    before timing and 'fast' while timed."""

    class Remembering(around_engine):  # type: ignore[misc]
        tape: tuple[list[Emission], ...] = ()
        recording: list[list[Emission]] = []  # noqa: RUF012 - one engine, one test
        playing = 0

        def reset(self) -> None:
            self.inner.reset()
            self.playing = 0
            if not self.tape and self.recording:
                self.tape = tuple(self.recording)
            self.recording = []

        @property
        def has_work(self) -> bool:
            return self.playing < len(self.tape) if self.tape else bool(self.inner.has_work)

        def step(self) -> list[Emission]:
            if self.tape:
                self.playing += 1
                return self.tape[self.playing - 1]
            self.recording.append(self.inner.step())
            return self.recording[-1]

    around(Remembering)
    record = worker.run(make_job())
    assert_refused(record, "regret_after")
    assert red(record) == {"regret_after"}
    off = worker.run(make_job(gate=GateSettings(exactness=False)))
    assert off.status == "ok"
    assert off.telemetry["gates_off"] == ["exactness"]


@pytest.mark.parametrize(
    ("change", "gates"),
    [
        (lambda x: torch.full_like(x, torch.nan), ["numeric_max", "numeric_rms"]),
        (torch.zeros_like, ["numeric_max", "numeric_rms"]),
        (torch.empty_like, ["numeric_max", "numeric_rms"]),
        (lambda x: x * 1.001, ["numeric_max"]),
        (lambda x: x.roll(1, -1), ["numeric_max", "numeric_rms", "regret"]),
    ],
    ids=["NaN", "zeros", "unwritten", "a little off", "shuffled"],
)
def test_wrong_logits_are_caught_before_timing(
    make_job: MakeJob,
    around: Wrap,
    around_engine: Any,
    change: Callable[[Tensor], Tensor],
    gates: list[str],
) -> None:
    def wrap(inner: Any) -> Any:
        engine = around_engine(inner)
        engine.on_head(change)
        return engine

    around(wrap)
    assert_refused(worker.run(make_job()), *gates)


def test_a_reference_of_nan_passes_nothing(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nan(stack: Any, plan: Any, weights: Any, tokens: Tensor, dtype: torch.dtype) -> Tensor:
        return torch.full((len(tokens), plan.shape.vocab), torch.nan, dtype=dtype)

    monkeypatch.setattr("harness.gates.reference.logits", nan)
    assert_refused(worker.run(make_job()), "numeric_max", "regret")


def test_logits_that_are_not_shown_fail(
    make_job: MakeJob, around: Wrap, around_engine: Any
) -> None:
    class Hiding(around_engine):  # type: ignore[misc]
        observer = None

    around(Hiding)
    record = worker.run(make_job())
    assert_refused(record, "numeric_max")
    assert "did not show" in (record.reason or "")


@pytest.mark.parametrize("left", [0, 7, 11])
def test_a_wrong_number_of_tokens_fails(
    make_job: MakeJob, around: Wrap, around_engine: Any, left: int
) -> None:
    """Zero tokens, an early end, and one token too many, for one request of the batch."""

    class Counting(around_engine):  # type: ignore[misc]
        def reset(self) -> None:
            self.inner.reset()
            self.seen = 0

        def step(self) -> list[Emission]:
            found = []
            for e in self.inner.step():
                if e.request_id == 1:
                    self.seen += 1
                    if left > 10 and e.finished:
                        found.append(Emission(1, (*e.token_ids, 0), True, "length"))
                        continue
                    if self.seen > left:
                        continue
                found.append(e)
            return found

    around(Counting)
    record = worker.run(make_job())
    assert_refused(record, "tokens")
    assert f"request 1 emitted {left} tokens of 10" in (record.reason or "")


@pytest.mark.parametrize("step", [1, 40], ids=["in the gates", "while timed"])
def test_a_candidate_that_loosens_the_arithmetic_fails(
    make_job: MakeJob, around: Wrap, around_engine: Any, step: int
) -> None:
    """TF32 turned on would make every later product as rough as the candidate's."""

    class Loosening(around_engine):  # type: ignore[misc]
        steps = 0

        def step(self) -> list[Emission]:
            self.steps += 1
            if self.steps == step:
                torch.set_float32_matmul_precision("high")
            found: list[Emission] = self.inner.step()
            return found

    around(Loosening)
    with restored(state()):
        record = worker.run(make_job())
    assert_refused(record, "ambient" if step == 1 else "ambient_after")
    assert "float32 matmul precision was highest and is high" in (record.reason or "")


def test_state_that_the_formula_does_not_know_fails(
    make_job: MakeJob, around: Wrap, around_engine: Any
) -> None:
    class Hoarding(around_engine):  # type: ignore[misc]
        def memory(self) -> Any:
            held = self.inner.memory()
            return type(held)(held.state_bytes + 1, held.reserved_bytes, held.weights_bytes)

    around(Hoarding)
    assert_refused(worker.run(make_job()), "state_bytes")


@pytest.mark.parametrize("after", [-7, 0], ids=["backwards", "standing still"])
@pytest.mark.parametrize("reading", [10, 40], ids=["in the gates", "while timed"])
def test_a_clock_that_lies_stores_no_number(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch, after: int, reading: int
) -> None:
    readings = [0]

    def now_ns() -> int:
        readings[0] += 1
        return 1000 * (readings[0] if readings[0] < reading else reading + after)

    module = ModuleType("lying_clock")
    module.now_ns = now_ns  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lying_clock", module)
    record = worker.run(make_job(clock="lying_clock:now_ns"))
    assert_refused(record, "clock")
    assert ("went backwards" if after else "a step took 0 ns") in (record.reason or "")


def test_faster_than_physics_fails(make_job: MakeJob) -> None:
    low = Ceilings(bandwidth_bytes_per_s=1e3, flops_per_s={"float32": 1e3}, source="measured")
    record = worker.run(make_job(ceilings=low))
    assert_refused(record, "plausible_step", "plausible_ttft")
    assert worker.run(make_job(ceilings=low, gate=GateSettings(plausibility=False))).status == "ok"


def test_the_whole_has_a_floor_of_its_own(make_job: MakeJob) -> None:
    """Holding tokens back moves the parts' times, never the whole's."""
    record = worker.run(make_job())
    gates = {gate.name: gate for gate in record.gates}
    whole, step, first = (gates[f"plausible_{part}"] for part in ("e2e", "step", "ttft"))
    e2e, gap, ttft = (value(record, name) for name in ("e2e", "step_gap", "ttft"))
    assert whole.observed
    assert step.observed
    assert first.observed
    assert e2e
    assert gap
    assert ttft
    floors = first.observed * ttft + 9 * step.observed * gap
    assert whole.observed * e2e == pytest.approx(floors, rel=0.02)
    low = Ceilings(bandwidth_bytes_per_s=1e3, flops_per_s={"float32": 1e3}, source="measured")
    assert_refused(worker.run(make_job(ceilings=low)), "plausible_e2e")


def test_tokens_held_back_give_no_rates(
    make_job: MakeJob, around: Wrap, around_engine: Any
) -> None:
    """The first token comes one step before the end, nine with the last: no time between tokens,
    nor anything made of it, and no samples either."""

    class Holding(around_engine):  # type: ignore[misc]
        def reset(self) -> None:
            self.inner.reset()
            self.held: dict[int, tuple[int, ...]] = {}

        def step(self) -> list[Emission]:
            shown = []
            for e in self.inner.step():
                held = self.held.get(e.request_id, ()) + e.token_ids
                self.held[e.request_id] = held
                if e.finished:
                    shown.append(Emission(e.request_id, held[1:], True, e.reason))
                elif len(held) == 9:
                    shown.append(Emission(e.request_id, held[:1], finished=False))
            return shown

    around(Holding)
    record = worker.run(make_job())
    assert record.status == "ok", record.reason
    reasons = {m.name: m.null_reason for m in record.metrics if m.value is None}
    for name in ("tpot", "itl_p50", "step_gap", "achieved_bandwidth", "roofline_fraction"):
        assert "held back" in (reasons.get(name) or "")
    assert {s.metric for s in record.samples} == {"ttft", "e2e"}


def test_without_ceilings_the_floor_is_left_open_and_said(make_job: MakeJob) -> None:
    record = worker.run(make_job(ceilings=None))
    assert record.status == "ok"
    assert value(record, "roofline_fraction") is None
    assert "no ceilings" in record.telemetry["plausibility"]
