"""What a sweep came to, and the exit code that says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.exit_codes import ExitCode, interrupted
from harness.run import Status
from harness.suite.case import Case

# Statuses of runs that had a process, and of those the ones that make a command answer "no".
_FAILED: frozenset[Status] = frozenset(
    {"gate_failed", "oom", "timeout", "crashed", "error", "invalid"}
)
_MEASURED: frozenset[Status] = _FAILED | {"ok"}


@dataclass(frozen=True)
class Outcome:
    """A sweep that has ended, in whole or in part.

    `statuses` counts the last attempt of every (case, round) of the sweep, those stored before a
    `--resume` included. `left_out` names the case of each run that the budget had no room for.
    `signum` is the signal that cut the sweep short, or None.
    """

    sweep_id: int
    statuses: Mapping[Status, int]
    left_out: tuple[Case, ...] = ()
    signum: int | None = None

    @property
    def complete(self) -> bool:
        """Whether every planned run was made or recorded."""
        return self.signum is None and not self.left_out

    @property
    def exit_code(self) -> int:
        """0 good, 1 a case failed, 3 nothing was measured, 128 + signal when cut short."""
        if self.signum is not None:
            return interrupted(self.signum)
        if not any(self.statuses.get(status) for status in _MEASURED):
            return ExitCode.NOTHING_MEASURED
        failed = any(self.statuses.get(status) for status in _FAILED)
        return ExitCode.NEGATIVE if failed else ExitCode.GOOD
