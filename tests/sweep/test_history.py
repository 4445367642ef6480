from collections.abc import Callable
from typing import Any

import pytest

from harness.run import RunRecord
from harness.store.rows import StoredRun
from harness.suite.case import Case
from harness.sweep.history import MAX_ATTEMPTS, History

MakeCase = Callable[..., Case]
MakeRecord = Callable[..., RunRecord]


def test_good_run_is_finished(make_case: MakeCase, make_record: MakeRecord) -> None:
    case, history = make_case(), History()
    assert history.attempt(case, 1) == 1
    history.add(case, make_record(case))
    assert history.attempt(case, 1) is None
    assert history.attempt(case, 2) == 1
    assert history.skip(case) is None


def test_invalid_run_is_tried_again_a_bounded_number_of_times(
    make_case: MakeCase, make_record: MakeRecord
) -> None:
    case, history = make_case(), History()
    for attempt in range(1, MAX_ATTEMPTS + 1):
        assert history.attempt(case, 1) == attempt
        assert history.skip(case) is None
        history.add(case, make_record(case, "invalid", attempt=attempt))
    assert history.attempt(case, 1) is None
    assert history.skip(case) is not None


def test_good_attempt_after_an_invalid_one_counts(
    make_case: MakeCase, make_record: MakeRecord
) -> None:
    case, history = make_case(), History()
    history.add(case, make_record(case, "invalid"))
    history.add(case, make_record(case, attempt=2))
    assert history.attempt(case, 1) is None
    assert history.skip(case) is None
    assert history.statuses() == {"ok": 1}


@pytest.mark.parametrize("status", ["gate_failed", "timeout", "crashed", "error", "unsupported"])
def test_failed_run_settles_its_case(
    make_case: MakeCase, make_record: MakeRecord, status: Any
) -> None:
    case, larger, history = make_case(), make_case(batch=64), History()
    history.add(case, make_record(case, status))
    skip = history.skip(case)
    assert skip is not None
    assert (skip.reason, skip.stored) == (f"round 1 ended as {status}", False)
    assert history.skip(larger) is None


def test_lack_of_memory_settles_larger_cases_with_a_row_each(
    make_case: MakeCase, make_record: MakeRecord
) -> None:
    case, larger, history = make_case(batch=8), make_case(batch=64), History()
    history.add(case, make_record(case, "oom"))
    skip = history.skip(larger)
    assert skip is not None
    assert skip.reason == "mha B8 P8 N4 ran out of memory, and this is no smaller"
    assert skip.stored
    history.add(larger, make_record(larger, "skipped"))
    again = history.skip(larger)
    assert again is not None
    assert not again.stored


def test_history_of_stored_runs_is_the_same(make_case: MakeCase, make_record: MakeRecord) -> None:
    """Also when the store gives a later attempt first."""
    case, small = make_case(batch=8), make_case()
    history = History(
        [
            StoredRun(3, small, make_record(small, "ok", attempt=2)),
            StoredRun(1, small, make_record(small, "invalid", attempt=1)),
            StoredRun(2, case, make_record(case, "oom")),
        ]
    )
    assert history.attempt(small, 1) is None
    assert history.skip(make_case(batch=9)) is not None
    assert history.statuses() == {"ok": 1, "oom": 1}
