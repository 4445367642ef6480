"""Served requests in a report: rates in order, ratios against the baseline, courses drawn."""

from __future__ import annotations

from types import ModuleType

import pytest

from harness.analysis.results import Result, results
from harness.report.notes import notes
from harness.report.page import html
from harness.report.serving import rank, serving_grids
from harness.report.serving_plots import serving_plots
from harness.report.sheet import sheet
from harness.run import SampleSet
from harness.store.rows import StoredRun
from harness.suite.points import ServePoint

STACKS = ("mha", "mha+paged")


def _point(rate: float) -> ServePoint:
    return ServePoint(
        requests=100, rate=rate, trace="azure-2023-code", scale=0.1, slots=8, max_tokens=64
    )


@pytest.fixture
def served(example_sweep: ModuleType) -> list[Result]:
    """Two stacks at two rates in two rounds; the second stack is twice as good."""
    runs: list[StoredRun] = []
    course = [
        SampleSet(metric="timeline_step", unit="ns", values=[10**8] * 30),
        SampleSet(metric="timeline_running", unit="", values=[*range(30)]),
        SampleSet(metric="timeline_waiting", unit="", values=[3] * 30),
        SampleSet(metric="timeline_places_held", unit="", values=[64] * 30),
    ]
    for rate in (8.0, 2.0):
        for better, stack in enumerate(STACKS, 1):
            case = example_sweep.case(stack).model_copy(update={"workload": _point(rate)})
            metrics = {
                "throughput": 100.0 * better,
                "goodput": 1.5,
                "ttft": 4e6 * rate / better,
                "ttft_p90": 9e6 * rate / better,
                "ttft_p99": None,
                "tpot": 3e6,
                "e2e_p90": 7e7,
                "prefix_hit_rate": 0.0,
                "refused": 0.0,
                "swaps_out": 3.0,
                "cache_waste": 0.5 / better,
                "batch_occupancy": 0.25,
                "peak_sequences": 7.0 * better,
                "preemptions": 0.0,
            }
            records = [
                example_sweep.record(case, number, metrics=metrics, samples=course)
                for number in (1, 2)
            ]
            runs += example_sweep.stored(case, *records, first_id=len(runs) + 1)
    return results(runs)


def test_a_row_is_a_stack_at_a_rate(served: list[Result]) -> None:
    rates, first, gaps, room = serving_grids(served, "mha", STACKS)
    assert rates.title == "Serving azure-2023-code x0.1, slots 8, tiny, torch, float32, 1 thread"
    for grid in (rates, first, gaps, room):
        rows = [row[0] for row in grid.rows]
        assert rows == ["2  mha", "2  mha+paged", "8  mha", "8  mha+paged"]
    assert [row[2] for row in rates.rows] == ["baseline", "2.00x", "baseline", "2.00x"]
    assert dict(zip(rates.header, rates.rows[1], strict=True))["tok/s"] == "200"
    # Names of columns stand more than once: p90 of the first token, then of the time per token.
    assert first.header[1:] == ("first", "p90", "p99", "token", "p90", "p99")
    assert first.rows[1][1:] == ("4.00 ms", "9.00 ms", "-", "3.00 ms", "-", "-")
    assert gaps.header[1:] == ("gap", "p90", "p99", "answer", "p90", "p99")
    assert gaps.rows[1][1:] == ("-", "-", "-", "-", "70.0 ms", "-")
    at = dict(zip(room.header, room.rows[3], strict=True))
    assert at["waste"] == "25.0%"
    assert at["peak"] == "14.0"
    assert at["preempted"] == "0"


def test_what_never_happened_has_no_column(served: list[Result]) -> None:
    room = serving_grids(served, "mha", STACKS)[-1]
    assert {"hits", "swapped", "refused"} & {*room.header} == {"swapped"}
    assert room.rows[1][room.header.index("swapped")] == "3.00"


def test_another_baseline_turns_the_ratios(served: list[Result]) -> None:
    rates = serving_grids(served, "mha+paged", STACKS)[0]
    assert [row[:3:2] for row in rates.rows[:2]] == [
        ("2  mha+paged", "baseline"),
        ("2  mha", "0.50x"),
    ]


def test_stacks_stand_in_the_suites_order() -> None:
    labels = ("c", "b", "a", "unknown")
    assert sorted(labels, key=lambda s: rank(s, "b", ("a", "b", "c"))) == ["b", "a", "c", "unknown"]


def test_the_sheet_holds_the_tables(served: list[Result], example_sweep: ModuleType) -> None:
    told = sheet(example_sweep.row(), served)
    assert [grid.title.split()[0] for grid in told.slopes] == ["Serving", "First", "Gap", "Queue"]
    assert told.blocks == ()


def test_plots_are_drawn_where_there_are_two_rates(served: list[Result]) -> None:
    titles = [plot.title for plot in serving_plots(served, STACKS)]
    assert titles == [
        "Time to first token, 90th percentile, against load",
        "Throughput against load",
        "The course of a run, at the highest load",
    ]
    slow = [result for result in served if result.case.title.find(", 2/s") > 0]
    assert [plot.title for plot in serving_plots(slow, STACKS)] == titles[2:]
    assert serving_plots([], STACKS) == []


def test_the_page_draws_the_course(served: list[Result], example_sweep: ModuleType) -> None:
    page = html(example_sweep.row(), served)
    assert page.count("<svg") == 3
    for text in ("requests a second", "mha+paged: sequences", "waiting", "places for tokens"):
        assert text in page


def test_a_course_belongs_to_a_result_that_is_good(
    served: list[Result], example_sweep: ModuleType
) -> None:
    assert all(result.timeline is not None for result in served)
    case = served[0].case
    bad = example_sweep.record(case, 1, status="gate_failed", reason="wrong")
    assert results(example_sweep.stored(case, bad))[0].timeline is None


def test_what_was_late_or_refused_is_told(example_sweep: ModuleType) -> None:
    case = example_sweep.case("mha").model_copy(update={"workload": _point(2.0)})
    said = {"late": "it slept 9 ms too long", "refused": ["request 4 needs 70 tokens"]}
    record = example_sweep.record(case, 1, metrics={"refused": 3.0}, telemetry={"serve": said})
    told = notes(example_sweep.row(), results(example_sweep.stored(case, record)), 1)
    assert any("generator of requests was late" in n and "slept 9 ms" in n for n in told)
    assert any("requests were refused" in n and "3 of them; request 4" in n for n in told)
    quiet = example_sweep.record(case, 1, metrics={"refused": 0.0}, telemetry={"serve": {}})
    told = notes(example_sweep.row(), results(example_sweep.stored(case, quiet)), 1)
    assert not any("late" in n or "refused" in n for n in told)
