"""A whole run in this process: what a good one holds, and every way in which one goes wrong."""

from __future__ import annotations

import math
import sys
import time
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
from harness.metrics import METRICS
from harness.model.presets import PRESETS
from harness.run import RunRecord
from harness.suite.case import GateSettings, MeasureSettings
from harness.worker.job import Job

MakeJob = Callable[..., Job]
Wrap = Callable[[Callable[[Any], Any]], None]


def red(record: RunRecord) -> set[str]:
    return {gate.name for gate in record.gates if not gate.passed}


def value(record: RunRecord, name: str) -> float | None:
    return next(metric.value for metric in record.metrics if metric.name == name)


def assert_refused(record: RunRecord, *gates: str) -> None:
    """Status, evidence, and not one number of performance."""
    assert record.status == "gate_failed", record.reason
    assert set(gates) <= red(record), red(record)
    assert record.metrics == []
    assert record.samples == []
    assert record.reason


@pytest.mark.parametrize("spec", ["mha", "gqa", "gqa+recompute"])
def test_a_good_run_holds_every_metric_once(make_job: MakeJob, spec: str) -> None:
    record = worker.run(make_job(spec))
    assert (record.status, record.reason) == ("ok", None)
    found = [metric.name for metric in record.metrics]
    assert sorted(found) == sorted(m.name for m in METRICS.values() if "generate" in m.of)
    for metric in record.metrics:
        assert (metric.value is None) == (metric.null_reason is not None)
        assert metric.value is None or math.isfinite(metric.value)
    names = {gate.name for gate in record.gates}
    assert {"tokens", "numeric_max", "regret", "state_bytes"} <= names
    assert {"tokens_after", "regret_after"} <= names
    assert {"plausible_step", "plausible_ttft", "plausible_e2e"} <= names
    assert {s.metric for s in record.samples} == {"step_gap", "ttft", "e2e"}
    assert all(v > 0 for s in record.samples for v in s.values)
    assert record.implementations["decode_attention"] == "torch"
    assert set(record.implementations.values()) == {"torch"}
    assert RunRecord.model_validate_json(record.model_dump_json()) == record


def test_warm_up_is_unwatched_and_nothing_is_compiled(make_job: MakeJob) -> None:
    record = worker.run(make_job())
    assert record.telemetry["warm_up"]["repetitions"] >= 1
    assert record.compile_seconds is None
    assert "nothing is compiled" in record.telemetry["warm_up"]["compile"]


def test_state_bytes_are_the_lectures(make_job: MakeJob) -> None:
    """B (P + N - 1) L K H 2 bytes each, so N / K times less where heads share."""
    shape = PRESETS["tiny"]
    full, grouped = worker.run(make_job("mha")), worker.run(make_job("gqa(kv_heads=1)"))
    entry = shape.layers * shape.heads * shape.head_dim * 2 * 4
    assert value(full, "state_bytes") == 3 * (12 + 10 - 1) * entry
    assert value(grouped, "state_bytes") == 3 * (12 + 10 - 1) * entry / shape.heads


def test_one_new_token_is_a_valid_run(make_job: MakeJob) -> None:
    """sglang#1585: no decode step; the rest is measured."""
    record = worker.run(make_job(new_tokens=1))
    assert record.status == "ok"
    assert value(record, "tpot") is None
    assert value(record, "achieved_bandwidth") is None
    assert value(record, "ttft")


def test_a_float64_case_is_held_to_a_few_roundings(
    make_job: MakeJob, around: Wrap, around_engine: Any
) -> None:
    """The reference is its own exact side: the engine's order of summation alone must pass, and a
    float32 anywhere in it must not."""
    record = worker.verify(make_job(dtype="float64"))
    assert record.status == "ok", record.reason

    def wrap(inner: Any) -> Any:
        engine = around_engine(inner)
        engine.on_head(lambda x: x.float().to(x.dtype))
        return engine

    around(wrap)
    assert_refused(worker.verify(make_job(dtype="float64")), "numeric_max")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_16_bit_case_is_held_to_float32_too(make_job: MakeJob, dtype: str) -> None:
    record = worker.run(make_job(dtype=dtype))
    assert record.status == "ok", record.reason
    names = {gate.name for gate in record.gates}
    assert {"numeric_max", "numeric_float32_max", "regret_float32", "regret_after"} <= names


def test_rounds_differ_in_prompts_and_samples(make_job: MakeJob) -> None:
    records = [worker.run(make_job(round=i)) for i in range(2)]
    assert records[0].case_hash == records[1].case_hash
    assert records[0].gates[1].observed != records[1].gates[1].observed


def test_nights_and_stacks_share_weights_and_prompts(
    make_job: MakeJob, around: Wrap, around_engine: Any
) -> None:
    """A sweep's seed orders runs: the same case is the same numbers under every one."""
    engines: list[Any] = []

    class Reading(around_engine):  # type: ignore[misc]
        prompts: tuple[tuple[int, ...], ...] = ()

        def submit(self, request: Any) -> None:
            self.prompts += (request.prompt,)
            self.inner.submit(request)

    def wrap(inner: Any) -> Any:
        engine = Reading(inner)
        engines.append(engine)
        return engine

    around(wrap)
    records = [
        worker.run(make_job("mha", seed=1)),
        worker.run(make_job("mha", seed=2)),
        worker.run(make_job("gqa(kv_heads=1)", seed=3)),
    ]
    first, again, other = engines
    assert first.prompts[:3] == again.prompts[:3] == other.prompts[:3]
    assert len(set(first.prompts)) == len(first.prompts)
    numeric = [next(g for g in r.gates if g.name == "numeric_max") for r in records]
    assert numeric[0].detail == numeric[1].detail

    def timed(engine: Any, record: RunRecord) -> tuple[int, ...]:
        """The first prompt of the timed repetitions."""
        found: tuple[int, ...] = engine.prompts[-3 * record.telemetry["sampling"]["repetitions"]]
        return found

    assert timed(first, records[0]) == timed(again, records[1]) == timed(other, records[2])


def test_the_float32_gate_sees_long_prompts(
    make_job: MakeJob, around: Wrap, around_engine: Any
) -> None:
    """An engine that goes wrong beyond 640 tokens, by less than 16 bits show. The rule for 48
    tokens of prompt let it pass."""

    class Overflowing(around_engine):  # type: ignore[misc]
        long = False

        def submit(self, request: Any) -> None:
            self.long = len(request.prompt) > 640
            self.inner.submit(request)

    def wrap(inner: Any) -> Any:
        engine = Overflowing(inner)
        engine.on_head(lambda x: x * 1.0005 if engine.long else x)
        return engine

    around(wrap)
    record = worker.verify(make_job(dtype="bfloat16", batch=2, prompt_tokens=700, new_tokens=4))
    assert_refused(record, "numeric_float32_max")


def test_a_sleeping_engine_has_its_known_time(
    make_job: MakeJob, around: Wrap, around_engine: Any
) -> None:
    """Steps sleep at least 4 ms: TPOT is what they really slept, to a few percent."""
    slept: list[float] = []

    class Sleeping(around_engine):  # type: ignore[misc]
        def step(self) -> list[Emission]:
            found: list[Emission] = self.inner.step()
            start = time.perf_counter()
            time.sleep(0.004)
            slept.append(time.perf_counter() - start)
            return found

    around(Sleeping)
    record = worker.run(make_job(measure=MeasureSettings(max_seconds=0.3, precision=0.9)))
    assert record.status == "ok"
    typical = sorted(slept)[len(slept) // 2] * 1e9
    tpot = value(record, "tpot")
    assert tpot is not None
    assert typical < tpot < 2 * typical


def test_a_run_that_waited_for_cores_may_be_called_invalid(
    make_job: MakeJob, around: Wrap, around_engine: Any
) -> None:
    """Asleep for most of the time, as a process is whose core another one has."""

    class Waiting(around_engine):  # type: ignore[misc]
        def step(self) -> list[Emission]:
            time.sleep(0.01)
            found: list[Emission] = self.inner.step()
            return found

    around(Waiting)
    short = {"max_seconds": 0.3, "precision": 0.9}
    kept = worker.run(make_job(measure=MeasureSettings(**short)))
    assert kept.status == "ok"
    assert kept.telemetry["timed"]["cpu_share"] < 0.9
    settings = MeasureSettings(**short, contended="invalid")
    refused = worker.run(make_job(measure=settings))
    assert refused.status == "invalid"
    assert "had to wait for cores" in (refused.reason or "")
    assert refused.metrics == []
    low = Ceilings(bandwidth_bytes_per_s=1e3, flops_per_s={"float32": 1e3}, source="measured")
    assert worker.run(make_job(measure=settings, ceilings=low)).status == "gate_failed"


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


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ValueError("boom"), "error"),
        (MemoryError("no room"), "oom"),
        (torch.OutOfMemoryError("CUDA out of memory"), "oom"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "oom"),
        (RuntimeError("something else"), "error"),
    ],
)
@pytest.mark.parametrize("step", [1, 25], ids=["in the gates", "while timed"])
def test_what_an_engine_raises_becomes_a_row(
    make_job: MakeJob,
    around: Wrap,
    around_engine: Any,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    status: str,
    step: int,
) -> None:
    class Raising(around_engine):  # type: ignore[misc]
        steps = 0

        def step(self) -> list[Emission]:
            self.steps += 1
            if self.steps == step:
                raise error
            found: list[Emission] = self.inner.step()
            return found

    around(Raising)
    record = worker.run(make_job())
    assert record.status == status
    assert record.metrics == []
    assert str(error) in (record.reason or "")
    assert type(error).__name__ in (record.reason or "")
    assert ("Traceback" in capsys.readouterr().err) == (status == "error")


def test_an_engine_that_is_stuck_is_an_error(
    make_job: MakeJob, around: Wrap, around_engine: Any
) -> None:
    class Stuck(around_engine):  # type: ignore[misc]
        def step(self) -> list[Emission]:
            return []

    around(Stuck)
    record = worker.run(make_job())
    assert record.status == "error"
    assert "it is stuck" in (record.reason or "")


def test_verify_gates_and_does_not_time(make_job: MakeJob) -> None:
    record = worker.verify(make_job("gqa+recompute"))
    assert record.status == "ok"
    assert record.metrics == []
    assert "sampling" not in record.telemetry
    assert {"numeric_max", "regret"} <= {gate.name for gate in record.gates}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"backend": "triton"}, "no GPU: `harness verify` checks the Triton kernels"),
        ({"cuda_graph": True}, "cuda_graph needs a CUDA device"),
        ({"spec": "mha+gqa(kv_heads=3)"}, ""),
        ({"prompt_tokens": 100_000}, ""),
        ({"device": "cuda:99"}, "torch sees no GPU"),
    ],
    ids=["triton", "graph", "stack", "length", "device"],
)
def test_what_cannot_run_here_is_unsupported(
    make_job: MakeJob, changes: dict[str, Any], reason: str
) -> None:
    if changes.get("device") and torch.cuda.is_available():
        pytest.skip("there is a GPU on this machine")
    if "spec" in changes:
        job = make_job()
        [choice] = job.case.composed.architecture
        three = choice.model_copy(update={"options": {"kv_heads": 3}})
        stack = job.case.composed.model_copy(update={"architecture": (three,)})
        job = job.model_copy(update={"case": job.case.model_copy(update={"stack": stack})})
    else:
        job = make_job(**changes)
    record = worker.run(job)
    assert record.status == "unsupported", record.reason
    assert reason in (record.reason or "")
    assert record.gates == []


def test_bfloat16_in_the_interpreter_is_refused_with_the_reason(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    record = worker.verify(make_job(backend="triton", dtype="bfloat16"))
    assert record.status == "unsupported"
    assert "computes bfloat16 wrongly" in (record.reason or "")
    assert worker.run(make_job(backend="triton")).status == "unsupported"


def test_a_checkpoint_that_changed_is_an_error(make_job: MakeJob) -> None:
    record = worker.run(make_job(checkpoint_hash="0" * 64))
    assert record.status == "error"
    assert "is not the one this case was planned with" in (record.reason or "")


def test_the_engine_cannot_damage_the_references_weights(make_job: MakeJob, around: Wrap) -> None:
    """A plugin that scales a tensor in place must not scale the reference's as well."""

    def wrap(engine: Any) -> Any:
        engine.runner.model._embedding.mul_(1.01)
        return engine

    around(wrap)
    assert_refused(worker.run(make_job()), "numeric_max")
