"""What the self-test calls a lie, on made-up runs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from harness.run import GateResult, MetricValue, RunRecord, SampleSet
from harness.selftest import truth
from harness.selftest.judge import judge
from harness.selftest.trials import TRIALS, Trial

MS = 1_000_000


def record(status: Any = "ok", **fields: Any) -> RunRecord:
    values: dict[str, Any] = {
        "case_hash": "c",
        "round": 0,
        "order_slot": 0,
        "started_at": datetime(2026, 1, 1, tzinfo=UTC),
        "seconds": 1.0,
        "reason": None if status == "ok" else "because",
    }
    return RunRecord(status=status, **{**values, **fields})


def gate(name: str, passed: bool) -> GateResult:
    return GateResult(name=name, passed=passed, observed=1.0, bound=0.5, unit="")


RED = Trial("red", "mha+red", "gate_failed", gate="numeric_max")


@pytest.mark.parametrize(
    ("trial", "records", "fault"),
    [
        (Trial("good", "mha", "ok"), [record()], None),
        (Trial("good", "mha", "ok"), [], "0 rows instead of one"),
        (Trial("good", "mha", "ok"), [record(), record()], "2 rows instead of one"),
        (Trial("good", "mha", "ok"), [record("crashed")], "the status is crashed and not ok"),
        (RED, [record("gate_failed", gates=[gate("numeric_max", False)])], None),
        (RED, [record()], "the status is ok and not gate_failed"),
        (RED, [record("gate_failed", gates=[gate("numeric_max", True)])], "red gate is none"),
        (
            RED,
            [record("gate_failed", gates=[gate("tokens", False), gate("numeric_max", False)])],
            "the first red gate is tokens, not numeric_max",
        ),
        (
            RED,
            [
                record(
                    "gate_failed",
                    gates=[gate("numeric_max", False)],
                    metrics=[MetricValue(name="tpot", value=1.0)],
                )
            ],
            "carries metrics",
        ),
        (
            RED,
            [record("gate_failed", gates=[gate("numeric_max", False)], reason=None)],
            "gives no reason",
        ),
        (Trial("dies", "mha", "crashed", reason="SIGSEGV"), [record("crashed")], "'SIGSEGV'"),
    ],
)
def test_rows_are_judged(trial: Trial, records: list[RunRecord], fault: str | None) -> None:
    verdict = judge(trial, records)
    assert verdict.true == (fault is None)
    if fault is not None:
        assert fault in verdict.faults[0]


def told(*stamps_ms: float, tokens: int = 1) -> str:
    """A repetition submitted at 0 with an emission at each stamp."""
    emissions = [[round(at * MS), tokens] for at in stamps_ms]
    return f"truth {json.dumps({'submitted': 0, 'emissions': emissions})}"


def metrics(**changes: float | None) -> list[MetricValue]:
    """Of a first token after 60 ms and three more every 20 ms, one a step."""
    true: dict[str, float | None] = {
        "ttft": 60 * MS, "tpot": 20 * MS, "e2e": 120 * MS, "step_gap": 20 * MS,
        "itl_p50": 20 * MS, "tokens_per_step": 1.0, "throughput": 4 / 0.12,
    }  # fmt: skip
    return [
        MetricValue(name=name, value=value, null_reason=None if value is not None else "none")
        for name, value in {**true, **changes}.items()
    ]


def timed(tail: str, repetitions: int = 1, **fields: Any) -> RunRecord:
    telemetry = {"sampling": {"repetitions": repetitions}}
    return record(stderr_tail=tail, telemetry=telemetry, **fields)


def test_true_times_have_no_fault() -> None:
    assert truth.times(timed(told(60, 80, 100, 120), metrics=metrics())) == []


def test_only_the_timed_repetitions_count() -> None:
    tail = "\n".join([told(9, 10), "a warning", told(60, 80, 100, 120)])
    assert truth.times(timed(tail, metrics=metrics())) == []


@pytest.mark.parametrize("name", [metric.name for metric in metrics()])
def test_a_wrong_time_is_a_fault(name: str) -> None:
    value = next(metric.value for metric in metrics() if metric.name == name)
    assert value is not None
    [fault] = truth.times(timed(told(60, 80, 100, 120), metrics=metrics(**{name: value * 1.2})))
    assert fault.startswith(name)
    [fault] = truth.times(timed(told(60, 80, 100, 120), metrics=metrics(**{name: None})))
    assert fault.startswith(name)


def test_tokens_of_a_step_share_its_time() -> None:
    run = timed(
        told(30, 60, 90, tokens=3),
        metrics=metrics(
            ttft=30 * MS,
            tpot=10 * MS,
            e2e=90 * MS,
            step_gap=30 * MS,
            itl_p50=10 * MS,
            tokens_per_step=3.0,
            throughput=100.0,
        ),
    )
    assert truth.times(run) == []


def test_a_missing_log_is_a_fault() -> None:
    assert truth.times(timed("nothing", metrics=metrics())) == ["the fake's own log is missing"]


def test_samples_must_add_up() -> None:
    def samples(e2e: int) -> list[SampleSet]:
        values = {"ttft": [60], "step_gap": [20, 20, 20], "e2e": [e2e]}
        return [SampleSet(metric=k, unit="ns", values=v) for k, v in values.items()]

    assert truth.sums(record(samples=samples(120))) == []
    assert truth.sums(record(samples=samples(121))) != []


def test_gaps_are_one_fewer_than_tokens() -> None:
    tail = told(60, 80, 100, 120)
    good = MetricValue(name="itl_p50", value=1.0, n=6)
    assert truth.gap_count(timed(tail, repetitions=2, metrics=[good])) == []
    bad = MetricValue(name="itl_p50", value=1.0, n=8)
    assert truth.gap_count(timed(tail, repetitions=2, metrics=[bad])) != []


def test_sleeps_are_a_lower_bound() -> None:
    values = {"ttft": 60 * MS, "step_gap": 20 * MS, "tpot": 20 * MS, "e2e": 200 * MS}
    assert truth.slept(record(metrics=metrics(**values))) == []
    assert truth.slept(record(metrics=metrics(**{**values, "tpot": 19 * MS}))) != []


def test_one_token_leaves_gaps_undefined() -> None:
    undefined = dict.fromkeys(("tpot", "itl_p50", "step_gap", "tokens_per_step"))
    assert truth.single_token(timed(told(60), metrics=metrics(**undefined))) == []
    zero = {**undefined, "tpot": 0.0}
    assert truth.single_token(timed(told(60), metrics=metrics(**zero))) != []


def test_trials_are_told_apart() -> None:
    assert len({trial.name for trial in TRIALS}) == len(TRIALS)
    assert len({(t.stack, t.batch, t.new_tokens, t.clock) for t in TRIALS}) == len(TRIALS)
