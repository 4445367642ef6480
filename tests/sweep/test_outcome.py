import signal
from typing import Any

import pytest

from harness.sweep.outcome import Outcome


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ({"ok": 3}, 0),
        ({"ok": 3, "unsupported": 1, "skipped": 2, "oom_predicted": 1}, 0),
        ({"ok": 3, "gate_failed": 1}, 1),
        ({"ok": 3, "oom": 1}, 1),
        ({"timeout": 1}, 1),
        ({"crashed": 1, "error": 1, "invalid": 1}, 1),
        ({}, 3),
        ({"ok": 0, "unsupported": 2, "oom_predicted": 1}, 3),
    ],
)
def test_exit_codes(statuses: dict[Any, int], code: int) -> None:
    assert Outcome(1, statuses).exit_code == code


def test_signal_decides_the_exit_code() -> None:
    outcome = Outcome(1, {"ok": 3}, signum=signal.SIGINT)
    assert outcome.exit_code == 130
    assert not outcome.complete
