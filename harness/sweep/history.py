"""What a sweep has measured so far, and what follows for the runs still to come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.run import RunRecord, Status
from harness.store.rows import StoredRun
from harness.suite.case import Case
from harness.sweep.prune import dominated_by

# An invalid run (throttled, contended) is tried again this often in all, then it stays invalid:
# a filter that retried without end would leave nothing (NVIDIA/nvbench#231).
MAX_ATTEMPTS = 3


@dataclass(frozen=True)
class Skip:
    """A run that is not made. `stored` says whether a row tells so; else the case's rows do."""

    reason: str
    stored: bool


class History:
    """Finished runs of one sweep, from the store or as they come."""

    def __init__(self, runs: Iterable[StoredRun] = ()) -> None:
        self._last: dict[tuple[str, int], RunRecord] = {}
        self._failed: dict[str, RunRecord] = {}
        self._exhausted: list[Case] = []
        for run in sorted(runs, key=lambda run: run.record.attempt):
            self.add(run.case, run.record)

    def add(self, case: Case, record: RunRecord) -> None:
        """Take a finished run in."""
        self._last[record.case_hash, record.round] = record
        if record.status == "oom":
            self._exhausted.append(case)
        if record.status == "invalid" and record.attempt < MAX_ATTEMPTS:
            return
        if record.status != "ok":
            self._failed.setdefault(record.case_hash, record)

    def attempt(self, case: Case, number: int) -> int | None:
        """The attempt to make next at this case and round; None when it is finished."""
        record = self._last.get((case.hash, number))
        if record is None:
            return 1
        if record.status == "invalid" and record.attempt < MAX_ATTEMPTS:
            return record.attempt + 1
        return None

    def statuses(self) -> Mapping[Status, int]:
        """How often each status occurs, counting the last attempt of every (case, round)."""
        return Counter(record.status for record in self._last.values())

    def skip(self, case: Case) -> Skip | None:
        """Why no further run of this case is made, or None.

        A result carries the worst status of its runs, so one failed run settles it.
        """
        if failed := self._failed.get(case.hash):
            return Skip(f"round {failed.round} ended as {failed.status}", stored=False)
        if self._exhausted and (smaller := dominated_by(case, self._exhausted)):
            return Skip(f"{smaller.title} ran out of memory, and this is no smaller", stored=True)
        return None
