"""Runs to results: the worst status decides, the process is the unit, NULL keeps its reason."""

import random
from types import ModuleType
from typing import get_args

import pytest

from harness.analysis.results import SEVERITY, results
from harness.run import GateResult, Status


def test_every_status_has_a_place_in_the_severity() -> None:
    assert sorted(SEVERITY) == sorted(get_args(Status))


@pytest.mark.parametrize("worst", [s for s in SEVERITY if s not in ("ok", "skipped")])
def test_one_bad_round_makes_the_case_bad_and_takes_its_metrics(
    worst: Status, example_sweep: ModuleType
) -> None:
    of = example_sweep.case("mha")
    good = [example_sweep.record(of, n, metrics={"tpot": 1e6}) for n in (1, 3)]
    bad = example_sweep.record(of, 2, worst, reason="it was so")
    (result,) = results(example_sweep.stored(of, good[0], bad, good[1]))
    assert result.status == worst
    assert result.metrics == {}
    assert result.reason == "it was so (round 2 of 3)"


def test_a_wrong_output_is_worse_than_a_crash(example_sweep: ModuleType) -> None:
    of = example_sweep.case("mha")
    records = [
        example_sweep.record(of, 1, "crashed", reason="signal 11"),
        example_sweep.record(of, 2, "gate_failed", reason="regret"),
    ]
    (result,) = results(example_sweep.stored(of, *records))
    assert result.status == "gate_failed"
    assert result.failed


def test_a_round_that_nobody_tried_takes_nothing_from_those_that_ran(
    example_sweep: ModuleType,
) -> None:
    of = example_sweep.case("mha")
    records = [
        example_sweep.record(of, 1, metrics={"tpot": 1e6}),
        example_sweep.record(of, 2, "skipped", reason="the budget was used up"),
    ]
    (result,) = results(example_sweep.stored(of, *records))
    assert (result.status, result.rounds) == ("ok", 1)
    assert result.value("tpot") == 1e6


def test_all_skipped_is_skipped_and_no_failure(example_sweep: ModuleType) -> None:
    of = example_sweep.case("mha")
    (result,) = results(example_sweep.stored(of, example_sweep.record(of, 1, "skipped")))
    assert result.status == "skipped"
    assert not result.failed
    assert result.reason == "no reason was recorded for status skipped"


def test_the_last_attempt_of_a_round_counts(example_sweep: ModuleType) -> None:
    of = example_sweep.case("mha")
    records = [
        example_sweep.record(of, 1, metrics={"tpot": 1e6}, attempt=2),
        example_sweep.record(of, 1, "invalid", reason="throttled", attempt=1),
    ]
    (result,) = results(example_sweep.stored(of, *records))
    assert result.status == "ok"
    assert result.run_ids == (1,)


def test_the_estimate_is_the_geometric_mean_over_processes(example_sweep: ModuleType) -> None:
    of = example_sweep.case("mha")
    (result,) = results(example_sweep.rounds(of, "tpot", [1e6, 4e6]))
    estimate = result.metrics["tpot"]
    assert estimate.value == pytest.approx(2e6)
    assert estimate.n_processes == 2
    assert estimate.ci_low is not None
    assert estimate.ci_low < 1e6
    assert estimate.by_round == ((1, 1e6), (2, 4e6))


def test_one_process_has_a_value_and_a_reason_for_no_interval(example_sweep: ModuleType) -> None:
    of = example_sweep.case("mha")
    estimate = results(example_sweep.rounds(of, "tpot", [1e6]))[0].metrics["tpot"]
    assert (estimate.value, estimate.ci_low, estimate.ci_high) == (1e6, None, None)
    assert estimate.interval_reason is not None
    assert "two rounds" in estimate.interval_reason


def test_undefined_in_every_process_keeps_its_reason(example_sweep: ModuleType) -> None:
    of = example_sweep.case("mha")
    run = example_sweep.record(of, 1, metrics={"itl_p99": None, "tpot": 1e6})
    (result,) = results(example_sweep.stored(of, run))
    assert result.metrics["itl_p99"].value is None
    assert result.metrics["itl_p99"].null_reason == "too few gaps"
    assert result.value("itl_p99") is None
    assert result.value("energy_per_token") is None


def test_nothing_held_is_zero_bytes_exactly_and_no_logarithm(example_sweep: ModuleType) -> None:
    of = example_sweep.case("mha+recompute")
    estimate = results(example_sweep.rounds(of, "state_bytes", [0.0, 0.0]))[0].metrics[
        "state_bytes"
    ]
    assert (estimate.value, estimate.ci_low, estimate.ci_high) == (0.0, 0.0, 0.0)


def test_values_around_zero_give_a_median_and_no_interval(example_sweep: ModuleType) -> None:
    of = example_sweep.case("mha")
    runs = example_sweep.rounds(of, "token_agreement", [0.0, 0.5, 1.0])
    estimate = results(runs)[0].metrics["token_agreement"]
    assert (estimate.value, estimate.ci_low) == (0.5, None)
    assert estimate.interval_reason is not None


def test_a_gate_passes_only_where_every_run_passed_it(example_sweep: ModuleType) -> None:
    of = example_sweep.case("mha")

    def gate(passed: bool, observed: float) -> GateResult:
        return GateResult(name="numeric", passed=passed, observed=observed, bound=1.0, unit="")

    records = [
        example_sweep.record(of, 1, gates=[gate(True, 0.2), gate(True, 0.9)]),
        example_sweep.record(of, 2, "gate_failed", gates=[gate(False, float("inf"))]),
    ]
    (summary,) = results(example_sweep.stored(of, *records))[0].gates
    assert (summary.passed, summary.n_runs, summary.n_passed) == (False, 3, 2)
    assert summary.worst.observed == float("inf")
    (summary,) = results(example_sweep.stored(of, records[0]))[0].gates
    assert summary.passed
    assert summary.worst.observed == 0.9


def test_predicted_and_measured_rows_of_one_case_stay_apart(example_sweep: ModuleType) -> None:
    from harness.store.rows import StoredRun

    of = example_sweep.case("mha")
    runs = [
        StoredRun(1, of, example_sweep.record(of, 1, metrics={"tpot": 1e6})),
        StoredRun(2, of, example_sweep.record(of, 1, "predicted"), source="predicted"),
    ]
    assert [(r.source, r.status) for r in results(runs)] == [
        ("measured", "ok"),
        ("predicted", "predicted"),
    ]


def test_the_order_of_the_runs_does_not_matter(example_sweep: ModuleType) -> None:
    runs = example_sweep.runs()
    shuffled = list(runs)
    random.Random(1).shuffle(shuffled)
    by_hash = {r.case.hash: r for r in results(runs)}
    assert {r.case.hash: r for r in results(shuffled)} == by_hash
    assert len(by_hash) == 18
