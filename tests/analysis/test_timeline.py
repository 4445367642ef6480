"""The course of a run, thinned: means over time, whatever the steps' lengths."""

from __future__ import annotations

import random
from types import ModuleType

import pytest

from harness.analysis.timeline import timeline
from harness.run import RunRecord, SampleSet


def _record(example_sweep: ModuleType, steps: list[int], **series: list[int]) -> RunRecord:
    sets = [SampleSet(metric="timeline_step", unit="ns", values=steps)]
    sets += [SampleSet(metric=f"timeline_{n}", unit="", values=v) for n, v in series.items()]
    record: RunRecord = example_sweep.record(example_sweep.case("mha"), samples=sets)
    return record


def test_a_long_step_counts_for_as_long_as_it_takes(example_sweep: ModuleType) -> None:
    record = _record(example_sweep, [10**9, 3 * 10**9], running=[4, 8])
    found = timeline(record, stretches=4)
    assert found is not None
    assert found.seconds == (0.5, 1.5, 2.5, 3.5)
    assert found.series["running"] == (4, 8, 8, 8)
    halves = timeline(record, stretches=2)
    assert halves is not None
    assert halves.series["running"] == (6, 8)


@pytest.mark.parametrize("stretches", [1, 7, 50, 333])
def test_nothing_is_lost_by_thinning(example_sweep: ModuleType, stretches: int) -> None:
    draw = random.Random(3)
    steps = [draw.randrange(1, 10**7) for _ in range(200)]
    values = [draw.randrange(60) for _ in steps]
    found = timeline(_record(example_sweep, steps, waiting=values), stretches)
    assert found is not None
    wanted = sum(v * s for v, s in zip(values, steps, strict=True)) / sum(steps)
    assert sum(found.series["waiting"]) / stretches == pytest.approx(wanted)
    assert min(values) - 1e-6 <= min(found.series["waiting"])
    assert max(found.series["waiting"]) <= max(values) + 1e-6


def test_a_run_that_stored_no_course_has_none(example_sweep: ModuleType) -> None:
    assert timeline(example_sweep.record(example_sweep.case("mha"))) is None
