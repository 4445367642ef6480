"""A whole serve run in this process: what a good one holds, and what must keep a bad one out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from torch import Tensor

from harness import worker
from harness.engine.request import Emission, Request
from harness.metrics import METRICS
from harness.run import RunRecord
from harness.suite.points import ServePoint
from harness.suite.slo import Slo
from harness.worker.job import Job
from harness.worker.setup import Ground

MakeJob = Callable[..., Job]
POINT = ServePoint(
    requests=14,
    rate=2000.0,
    prompt_tokens=9,
    new_tokens=6,
    prefix_tokens=8,
    prefixes=2,
    slots=3,
    max_tokens=24,
    idle="skip",
)


def _run(make_job: MakeJob, stack: str, **changes: Any) -> RunRecord:
    point = POINT.model_copy(update=changes)
    return worker.run(make_job(stack, workload=point, slo=Slo(ttft_ms=1e6, tpot_ms=1e6)))


def _value(record: RunRecord, name: str) -> float | None:
    return next(metric.value for metric in record.metrics if metric.name == name)


@pytest.mark.parametrize(
    "stack",
    ["mha", "gqa+continuous", "gqa+paged(block=4,share=true)+continuous", "gqa+recompute"],
)
def test_a_good_run_holds_every_metric_once(make_job: MakeJob, stack: str) -> None:
    record = _run(make_job, stack)
    assert (record.status, record.reason) == ("ok", None)
    found = [metric.name for metric in record.metrics]
    assert sorted(found) == sorted(m.name for m in METRICS.values() if "serve" in m.of)
    for metric in record.metrics:
        assert (metric.value is None) == (metric.null_reason is not None)
        assert metric.value is None or math.isfinite(metric.value)
    names = {gate.name for gate in record.gates}
    assert {"tokens", "numeric_max", "regret", "tokens_after", "regret_after"} <= names
    assert "plausible_steps" in names
    assert RunRecord.model_validate_json(record.model_dump_json()) == record
    sets = {s.metric: len(s.values) for s in record.samples}
    assert sets["ttft"] == sets["e2e"] == 14
    assert sets["timeline_step"] == record.telemetry["serve"]["steps"]
    if "share" in stack:
        assert (_value(record, "prefix_hit_rate") or 0) > 0.2
        assert _value(record, "cache_waste") is not None


def test_several_answers_are_sampled_and_counted(make_job: MakeJob) -> None:
    record = _run(make_job, "gqa+paged+continuous", samples=3, slots=6, requests=5)
    assert record.status == "ok"
    # Greedy while it was gated, sampled when timed: only the first can be held to a regret.
    names = {gate.name for gate in record.gates}
    assert "regret" in names
    assert "regret_after" not in names
    assert "regret: tokens were sampled" in record.telemetry["gates_left_out"]


def test_answers_may_end_where_the_model_ends_them(make_job: MakeJob) -> None:
    assert _run(make_job, "gqa+continuous", stop="eos").status == "ok"


def test_a_request_longer_than_the_engine_is_refused_and_the_rest_is_served(
    make_job: MakeJob,
) -> None:
    changes = {
        "trace": "azure-2023-code", "scale": 0.01, "arrivals": "trace", "rate": None,
        "prompt_tokens": None, "new_tokens": None, "prefix_tokens": 0, "requests": 20,
        "max_tokens": 40,
    }  # fmt: skip
    record = _run(make_job, "gqa+continuous", **changes)
    assert record.status == "ok"
    refused = _value(record, "refused")
    assert refused is not None
    assert 0 < refused < 20
    assert "needs" in record.telemetry["serve"]["refused"][0]
    assert len(next(s for s in record.samples if s.metric == "e2e").values) == 20 - refused


def test_a_cache_that_holds_nothing_is_unsupported(make_job: MakeJob) -> None:
    record = _run(make_job, "gqa+paged+continuous", state_bytes=100)
    assert record.status == "unsupported"
    assert record.reason is not None
    assert "hold no block of 16 tokens" in record.reason


class Around:
    """An engine with another one inside."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.runs = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def observer(self) -> Any:
        return self.inner.observer

    @observer.setter
    def observer(self, observer: Any) -> None:
        self.inner.observer = observer

    def reset(self) -> None:
        self.runs += 1
        self.inner.reset()


class WrongWhenTimed(Around):
    """Right while it is watched, and wrong in the run that is timed."""

    def step(self) -> list[Emission]:
        emissions: list[Emission] = self.inner.step()
        if self.runs < 3:
            return emissions
        return [replace(e, token_ids=tuple((t + 7) % 50 for t in e.token_ids)) for e in emissions]


class ShortWhenTimed(Around):
    """Gives a token less than was asked for."""

    def submit(self, request: Request) -> None:
        fewer = request.max_new_tokens - (self.runs > 2)
        self.inner.submit(replace(request, max_new_tokens=fewer))


class ShowsOthers(Around):
    """Shows logits that did not decide the tokens."""

    @property
    def observer(self) -> Any:
        return self.inner.observer

    @observer.setter
    def observer(self, observer: Any) -> None:
        def shown(request: int, place: int, logits: Tensor) -> None:
            observer(request, place, logits + 0.01)

        self.inner.observer = None if observer is None else shown


@pytest.mark.parametrize(
    ("wrong", "gate"),
    [
        (WrongWhenTimed, "regret_after"),
        (ShortWhenTimed, "tokens_after"),
        (ShowsOthers, "numeric_max"),
    ],
)
def test_a_wrong_engine_leaves_no_number(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch, wrong: type[Around], gate: str
) -> None:
    engine = Ground.engine
    monkeypatch.setattr(Ground, "engine", lambda self: wrong(engine(self)))
    record = _run(make_job, "gqa+continuous")
    assert record.status == "gate_failed", record.reason
    assert gate in {g.name for g in record.gates if not g.passed}
    assert record.metrics == []
    assert record.samples == []
