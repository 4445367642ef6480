"""What is not there alarms as such: cases that stopped, red gates, empty nights, no nights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from harness.analysis.history.coverage import empty_nights, silences, stale
from harness.analysis.history.series import History

MakeHistory = Callable[..., History]
STEADY = [1e6] * 20


def test_a_case_that_stopped_is_overdue_after_one_night(make_history: MakeHistory) -> None:
    """rl#4292: a case was missing for a month and nobody was told."""
    history = make_history({1: STEADY, 2: STEADY[:-1]})
    (found,) = silences(history)
    assert (found.case_id, found.kind, found.last, found.since) == (2, "stopped", 18, 19)
    assert "no run of it is stored" in found.reason


def test_a_case_that_a_budget_leaves_out_is_given_its_time(make_history: MakeHistory) -> None:
    every_third = [1e6 if place % 3 == 0 else None for place in range(20)]
    history = make_history({1: STEADY, 2: every_third})
    assert silences(history) == []
    gone = [v if place < 10 else None for place, v in enumerate(every_third)]
    (found,) = silences(make_history({1: STEADY, 2: gone}))
    assert found.case_id == 2


def test_an_unfinished_night_silences_nobody(make_history: MakeHistory) -> None:
    history = make_history({1: STEADY, 2: STEADY[:-1]}, nights={19: {"status": "interrupted"}})
    assert silences(history) == []


def test_another_suites_night_silences_nobody(make_history: MakeHistory) -> None:
    history = make_history({1: STEADY, 2: STEADY[:-1]}, nights={19: {"suite": "kernels"}})
    assert silences(history) == []


def test_a_case_that_was_taken_out_of_the_suite_says_so(make_history: MakeHistory) -> None:
    history = make_history({1: STEADY, 2: STEADY[:-1]}, nights={19: {"suite_hash": "s2"}})
    (found,) = silences(history)
    assert found.suite_changed
    assert "the suite was changed" in found.reason


def test_a_gate_that_turned_red_is_a_flip(make_history: MakeHistory) -> None:
    history = make_history(
        {1: STEADY, 2: STEADY[:-1]}, endings={2: {19: ("gate_failed", "regret 3.1 above 0.2")}}
    )
    history = replace(history, red_gates={(2, 1, "measured"): {19: {"exactness": "at token 7"}}})
    (found,) = silences(history)
    assert found.kind == "flip"
    assert found.reason == "exactness turned red: regret 3.1 above 0.2"


def test_a_crash_is_a_stop_with_its_reason(make_history: MakeHistory) -> None:
    history = make_history({1: STEADY, 2: STEADY[:-1]}, endings={2: {19: ("crashed", "signal 11")}})
    (found,) = silences(history)
    assert (found.kind, found.reason) == ("stopped", "its last run ended as crashed: signal 11")


def test_a_night_that_measured_nothing_is_told(make_history: MakeHistory) -> None:
    """pybroker#287: nightly jobs measured nothing and were green."""
    failed = {19: ("error", "no device")}
    history = make_history(
        {1: STEADY[:-1], 2: STEADY[:-1], 3: [*STEADY[:-1], None]}, endings={1: failed, 2: failed}
    )
    assert list(empty_nights(history)) == [1]
    assert "measured nothing (error)" in empty_nights(history)[1]


def test_a_night_with_one_number_is_not_empty(make_history: MakeHistory) -> None:
    assert empty_nights(make_history({1: STEADY})) == {}


def test_a_month_without_a_sweep_is_stale(make_history: MakeHistory) -> None:
    history = make_history({1: STEADY})
    last = history.nights[-1].started_at
    assert stale(history, last + timedelta(days=2)) == {}
    assert "31 days ago" in stale(history, last + timedelta(days=31, hours=1))[1]
