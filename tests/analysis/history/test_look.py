"""A look at the whole history: rows, states, exit codes, and what is stored of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

from harness.analysis.history.confirmation import LEAST_PAIRS, bear_out, outcome
from harness.analysis.history.look import Look, Options, look, with_ids
from harness.analysis.history.series import History
from harness.analysis.verdict import Verdict, Verdicts
from harness.errors import UsageError
from harness.exit_codes import ExitCode
from harness.store.alerts import AlertRow, LevelRow

MakeHistory = Callable[..., History]
NIGHTS = 40


@pytest.fixture
def values(random: np.random.Generator) -> dict[int, Any]:
    """Eight quiet cases."""
    return {c: 1e6 * np.exp(0.004 * random.standard_normal(NIGHTS)) for c in range(1, 9)}


def seen(history: History, **known: Any) -> Look:
    last = history.nights[-1].started_at
    alerts = known.get("alerts", ())
    levels = known.get("levels", ())
    return look(history, alerts, levels, last + timedelta(hours=8), known.get("options"))


def changes(found: Look) -> list[Verdict]:
    return [r for r in found.verdicts.rows if r.change is not None and r.change.kind != "noise"]


def compared(row: Verdict, ratio: float, verdict: str, n: int = 16) -> Verdicts:
    own = {
        "subject": row.subject, "verdict": verdict, "ratio": ratio, "ci_low": ratio - 0.01,
        "ci_high": ratio + 0.01, "n": n, "base": 1.0, "head": 1.0,
    }  # fmt: skip
    at = datetime.fromisoformat("2026-02-12T06:00:00+00:00")
    return Verdicts(tool="compare", title="a against b", at=at, rows=(Verdict(**own),))


def test_quiet_nights_are_good(make_history: MakeHistory, values: dict[int, Any]) -> None:
    found = seen(make_history(values))
    assert found.verdicts.exit_code == ExitCode.GOOD
    assert len(found.verdicts.rows) == 8
    assert {r.verdict for r in found.verdicts.rows} <= {"same", "unknown"}
    assert all(r.base and r.head and r.smallest for r in found.verdicts.rows)


def test_a_step_is_nominated_and_alarms_nobody_yet(
    make_history: MakeHistory, values: dict[int, Any]
) -> None:
    values[3][30:] *= 1.05
    found = seen(make_history(values))
    (row,) = changes(found)
    assert (row.verdict, row.nominated, row.alarm) == ("unknown", True, False)
    assert row.subject.title == "mha B3 P16 N8"
    assert row.change is not None
    assert row.change.state == "nominated"
    assert row.change.cause == "code"
    assert row.change.from_revision is not None
    assert row.change.from_revision < f"{30:04d}" + "d" * 36
    assert row.ratio == pytest.approx(1 / 1.05, abs=0.01)
    assert found.verdicts.exit_code == ExitCode.GOOD
    (alert,) = found.alerts
    assert (alert.id, alert.state, alert.kind) == (0, "nominated", "step")


def test_a_session_bears_out_or_does_not(make_history: MakeHistory, values: dict[int, Any]) -> None:
    """mssql-rs#435, materialize#38810: nothing alarms before a session of its own showed it."""
    values[3][30:] *= 1.05
    found = seen(make_history(values))
    (row,) = changes(found)
    (after,) = bear_out([row], compared(row, 0.955, "regressed"))
    assert after.alarm
    assert after.verdict == "regressed"
    assert outcome(found.alerts[0], after).state == "confirmed"
    (after,) = bear_out([row], compared(row, 1.001, "same"))
    assert not after.alarm
    assert after.change is not None
    assert (after.change.state, after.change.cause) == ("unconfirmed", "environment")
    (after,) = bear_out([row], compared(row, 0.9, "regressed", n=LEAST_PAIRS - 1))
    assert after.nominated
    assert "too few" in after.reason
    other = compared(row, 0.9, "regressed")
    unlike = other.rows[0].model_copy(
        update={"subject": row.subject.model_copy(update={"case_hash": "x"})}
    )
    (after,) = bear_out([row], other.model_copy(update={"rows": (unlike,)}))
    assert after.nominated
    assert "did not measure it" in after.reason
    with pytest.raises(UsageError, match="harness compare --run"):
        bear_out([row], found.verdicts)


def test_what_was_decided_is_remembered_the_next_night(
    make_history: MakeHistory, values: dict[int, Any]
) -> None:
    values[3][30:] *= 1.05
    history = make_history(values)
    (alert,) = seen(history).alerts
    for state, code in (("confirmed", ExitCode.NEGATIVE), ("unconfirmed", ExitCode.GOOD)):
        known = replace(alert, id=7, state=state, cause="code", reason="16 pairs")
        again = seen(history, alerts=[known])
        (row,) = changes(again)
        assert row.change is not None
        assert (row.change.state, row.change.id) == (state, "7")
        assert again.verdicts.exit_code == code
        assert [a.id for a in again.alerts] == [7], "no second alert of the same change"


def test_an_acknowledged_level_is_history(
    make_history: MakeHistory, values: dict[int, Any]
) -> None:
    values[3][20:] *= 1.05
    history = make_history(values)
    (alert,) = seen(history).alerts
    assert alert.since is not None
    level = LevelRow(3, 1, "measured", "tpot", alert.since, None, "known", alert.created_at)
    again = seen(history, alerts=[replace(alert, id=7, state="acknowledged")], levels=[level])
    assert changes(again) == []


def test_a_fixed_regression_is_no_open_one(
    make_history: MakeHistory, values: dict[int, Any]
) -> None:
    """dvc-bench#105: it stays in the log, and no longer alarms."""
    values[3][12:24] *= 1.06
    found = seen(make_history(values))
    assert [r for r in changes(found) if r.nominated or r.alarm] == []


def test_a_regression_after_an_improvement_is_one(
    make_history: MakeHistory, values: dict[int, Any]
) -> None:
    """The accepted level follows an improvement; back to the old level is a regression."""
    values[3][12:26] *= 0.92
    rows = [r for r in changes(seen(make_history(values))) if r.nominated]
    assert [r.subject.title for r in rows] == ["mha B3 P16 N8"]


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_throughput_alarms_only_when_it_falls(
    make_history: MakeHistory, values: dict[int, Any], factor: float
) -> None:
    values[3][25:] *= factor
    (row,) = changes(seen(make_history(values, metric="throughput")))
    assert row.ratio is not None
    assert (row.verdict == "improved") == (factor > 1)
    assert (row.ratio > 1) == (factor > 1)


def test_counts_alarm_at_once(make_history: MakeHistory) -> None:
    values = {c: np.full(NIGHTS, 1e9) for c in range(1, 9)}
    values[2][-1] *= 1.1
    found = seen(make_history(values, metric="state_bytes"))
    (row,) = changes(found)
    assert row.alarm
    assert found.verdicts.exit_code == ExitCode.NEGATIVE


def test_a_red_gate_alarms_at_once(make_history: MakeHistory, values: dict[int, Any]) -> None:
    values[2] = values[2][:-1]
    history = make_history(values, endings={2: {NIGHTS - 1: ("gate_failed", "regret 3")}})
    found = seen(history)
    (row,) = changes(found)
    assert (row.verdict, row.alarm) == ("invalid", True)
    assert row.change is not None
    assert row.change.kind == "flip"
    assert found.verdicts.exit_code == ExitCode.NEGATIVE


def test_a_night_without_any_number_is_3_and_not_1(
    make_history: MakeHistory, values: dict[int, Any]
) -> None:
    failed = {NIGHTS - 1: ("error", "no device")}
    history = make_history(
        {c: [*v[:-1], None] for c, v in values.items()}, endings=dict.fromkeys(values, failed)
    )
    found = seen(history)
    assert found.verdicts.exit_code == ExitCode.NOTHING_MEASURED
    (row,) = found.verdicts.rows
    assert "measured nothing" in row.reason


def test_a_month_of_silence_is_3(make_history: MakeHistory, values: dict[int, Any]) -> None:
    history = make_history(values)
    late = history.nights[-1].started_at + timedelta(days=31)
    assert look(history, (), (), late).verdicts.exit_code == ExitCode.NOTHING_MEASURED
    patient = Options(stale_after=timedelta(days=60))
    assert look(history, (), (), late, patient).verdicts.exit_code == ExitCode.GOOD


def test_no_history_is_3() -> None:
    empty = History((), (), {}, {}, {}, {})
    found = look(empty, (), (), datetime.fromisoformat("2026-01-01T00:00:00+00:00"))
    assert found.verdicts.exit_code == ExitCode.NOTHING_MEASURED
    assert found.verdicts.notes == ("there is no sweep to look at yet",)


def test_one_night_is_no_history_and_no_alarm(make_history: MakeHistory) -> None:
    found = seen(make_history({1: [1e6], 2: [2e6]}))
    assert {r.reason for r in found.verdicts.rows} == {"one night is no history yet"}
    assert found.alerts == ()


def test_an_environment_change_of_all_cases_is_named(
    make_history: MakeHistory, values: dict[int, Any]
) -> None:
    """New drivers start an epoch: shown, classified, and neither merged nor split silently."""
    for own in values.values():
        own[30:] *= 1.05
    history = make_history(
        values, nights={p: {"environment_hash": "e2"} for p in range(30, NIGHTS)}
    )
    rows = changes(seen(history))
    assert len(rows) == 8
    assert {r.change.cause for r in rows if r.change} == {"environment"}
    assert not any(r.alarm for r in rows)


def test_ids_are_given_after_storing(make_history: MakeHistory, values: dict[int, Any]) -> None:
    values[3][30:] *= 1.05
    found = seen(make_history(values))
    (row,) = [r for r in with_ids(found, [12]).rows if r.nominated]
    assert row.change is not None
    assert row.change.id == "12"


def test_pooled_members_are_nominated(
    make_history: MakeHistory, random: np.random.Generator
) -> None:
    values, caches = {}, {}
    for case in range(1, 31):
        own = 1e6 * np.exp(0.015 * random.standard_normal(NIGHTS))
        if case <= 12:
            own[-3:] *= 1.02
            caches[case] = "paged"
        values[case] = own
    found = seen(make_history(values, caches=caches))
    nominated = [r for r in found.verdicts.rows if r.nominated]
    assert sum("paged" in r.subject.title for r in nominated) == 12
    assert sum("cases moved" in r.reason for r in nominated) >= 5


def test_alerts_survive_a_night_of_detection_that_shifts_by_one(
    make_history: MakeHistory, values: dict[int, Any]
) -> None:
    values[3][30:] *= 1.05
    history = make_history(values)
    (alert,) = seen(history).alerts
    assert alert.since is not None
    moved: AlertRow = replace(alert, id=4, since=alert.since + timedelta(days=2))
    assert [a.id for a in seen(history, alerts=[moved]).alerts] == [4]
    far = replace(alert, id=4, since=alert.since - timedelta(days=15))
    assert [a.id for a in seen(history, alerts=[far]).alerts] == [0]
