"""What a run is expected to take: its start, what is beside the timing, and the timing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.suite.case import Case, MeasureSettings
from harness.sweep.expect import START_S, WARM_UPS, WATCHED_REPETITIONS, run_seconds

SETTINGS = MeasureSettings(min_samples=20, max_seconds=20.0)


@pytest.mark.parametrize(
    ("repetition_s", "warming", "timed_s"),
    [
        (0.1, WARM_UPS, 0.7),  # 3 steps a repetition: 7 of them give 20 samples
        (2.0, 2.5, 14.0),  # a quarter of the measuring time is left for warming up
        (4.0, 1.25, 20.0),  # and the whole of it for the samples
        (30.0, 1.0, 30.0),  # one of each is always made
    ],
)
def test_a_run_is_its_start_what_is_watched_warming_up_and_the_samples(
    make_case: Callable[..., Case], repetition_s: float, warming: float, timed_s: float
) -> None:
    found = run_seconds(make_case(new=4), SETTINGS, repetition_s)
    beside = (WATCHED_REPETITIONS + warming) * repetition_s
    assert found == pytest.approx(START_S + beside + timed_s)
