from datetime import UTC, datetime
from typing import Any

import pytest

from harness.errors import UsageError
from harness.hardware.identity import EnvironmentRow, HardwareRow, RevisionRow
from harness.store.rows import SweepRow, SweepStart
from harness.sweep.resume import choice, find, given

ARGV = ("sweep", "suites/quick.yaml", "--set", "workload.batch=1,8", "--seed", "4")


def start(**changes: Any) -> SweepStart:
    hardware = {"kind": "cpu", "name": "c", "arch": "x86_64", "memory_bytes": 1, "count": 2}
    values: dict[str, Any] = {
        "suite": "quick",
        "suite_hash": "h",
        "suite_text": "suite: quick",
        "argv": ARGV,
        "seed": 1,
        "started_at": datetime(2026, 1, 1, tzinfo=UTC),
        "hardware": HardwareRow.model_validate({**hardware, "cpu": "c"}),
        "environment": EnvironmentRow(python="3.11", os="linux", torch="2.13"),
        "revision": RevisionRow(repo="r", commit="c1"),
    }
    return SweepStart(**{**values, **changes})


def row(number: int, status: str = "interrupted", **changes: Any) -> SweepRow:
    return SweepRow.model_validate(
        {**start(**changes).model_dump(), "id": number, "status": status}
    )


def test_last_unfinished_sweep_is_found() -> None:
    stored = [row(1), row(2, "running"), row(3, suite_hash="other"), row(4, suite="other")]
    assert find(start(), stored).id == 2


def test_seed_database_and_budget_may_differ() -> None:
    argv = ("sweep", "quick", "--db", "x", "--set", "workload.batch=1,8", "--resume", "--budget")
    assert find(start(argv=(*argv, "5m"), seed=9), [row(1)]).id == 1


@pytest.mark.parametrize(
    "stored",
    [
        [],
        [row(1, suite_hash="other")],
        [row(1, argv=(*ARGV, "--only", "gqa*"))],
        [row(1, argv=("rerun", *ARGV[1:]))],
        [row(1, hardware=start().hardware.model_copy(update={"count": 3}))],
    ],
)
def test_nothing_alike(stored: list[SweepRow]) -> None:
    with pytest.raises(UsageError, match="nothing to resume: no sweep of suite 'quick'"):
        find(start(), stored)


def test_complete_sweep_is_not_resumed() -> None:
    with pytest.raises(UsageError, match="sweep 2, the last of suite 'quick', is complete"):
        find(start(), [row(1), row(2, "complete")])


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("code", {"revision": RevisionRow(repo="r", commit="c2")}),
        ("code", {"revision": RevisionRow(repo="r", commit="c1", dirty=True, diff_hash="d")}),
        ("code", {"revision": None}),
        ("environment", {"environment": EnvironmentRow(python="3.11", os="linux", torch="2.14")}),
    ],
)
def test_changed_surroundings_are_not_mixed(what: str, changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"the {what} has changed since it began"):
        find(start(**changes), [row(1)])


def test_choice_keeps_what_decides_the_cases() -> None:
    argv = ["sweep", "quick", "--resume", "--only", "b", "--only", "a", "--db", "d", "--seed", "1"]
    assert choice(argv) == [("--only", "a"), ("--only", "b")]


def test_given_values_are_found_again() -> None:
    argv = ["sweep", "quick", "--resume", "--set", "a=--db", "--db", "d", "--set", "b=1"]
    assert given(argv, "--set") == ["a=--db", "b=1"]
    assert given(argv, "--only") == []
