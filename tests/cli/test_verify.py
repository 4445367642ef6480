"""`harness verify`: a table of gates, and an exit code that a script can trust."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness import cli
from harness.errors import NothingMeasuredError, UsageError
from harness.run import RunRecord, Status
from harness.worker.job import Job

PLUGINS = str(Path(__file__).parent.parent / "gates" / "plugins")


def verify(*arguments: str) -> Result:
    return CliRunner().invoke(cli.build(), ["verify", *arguments], env={"OMP_NUM_THREADS": "1"})


def answering(*statuses: Status) -> Callable[..., RunRecord]:
    """Workers that end with these statuses, one after the other."""
    rest = iter(statuses)

    def in_process(job: Job, *, interpreted: bool) -> RunRecord:
        return RunRecord(
            case_hash=job.case.hash,
            status=next(rest),
            reason="because",
            round=0,
            order_slot=0,
            started_at=datetime.now(UTC),
            seconds=0.0,
        )

    return in_process


def test_a_right_technique_is_green_and_a_wrong_one_red() -> None:
    """Through real workers: the wrong one zeroes one row of one matrix."""
    result = verify("gqa", "half_wrong", "--plugin-path", PLUGINS)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["stack", "model", "kernels", "numeric", "regret", "verdict"]
    assert lines[1].startswith("gqa ")
    assert "green, " in lines[1]
    assert lines[2].startswith("half_wrong ")
    assert "RED: numeric_max, numeric_rms" in lines[2]


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (("ok", "ok"), 0),
        (("ok", "unsupported"), 0),
        (("ok", "crashed"), 1),
        (("gate_failed", "ok"), 1),
        (("oom", "unsupported"), 1),
    ],
)
def test_exit_codes(
    monkeypatch: pytest.MonkeyPatch, statuses: tuple[Status, Status], code: int
) -> None:
    monkeypatch.setattr("harness.cli.verify._in_process", answering(*statuses))
    assert verify("gqa", "mha+recompute").exit_code == code


def test_nothing_tried_is_not_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.cli.verify._in_process", answering("unsupported"))
    result = verify("gqa")
    assert isinstance(result.exception, NothingMeasuredError)
    assert "not tried: because" in result.stdout


def test_an_unknown_name_is_one_sentence() -> None:
    result = verify("gqq")
    assert isinstance(result.exception, UsageError)
    assert "did you mean 'gqa'" in str(result.exception)
