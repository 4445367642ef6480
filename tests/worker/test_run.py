"""A whole run in this process: what a good one holds, and what it times."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

from harness import worker
from harness.engine.request import Emission
from harness.hardware.ceilings import Ceilings
from harness.metrics import METRICS
from harness.model.presets import PRESETS
from harness.run import RunRecord
from harness.suite.case import MeasureSettings
from tests.worker.records import MakeJob, Wrap, assert_refused, value


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
