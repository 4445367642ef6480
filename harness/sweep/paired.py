"""The loop of a comparison: pairs of runs, one of each side, side by side in one job.

Which side goes first is drawn for one pair of a case and turned round for its next (ABBA), so that
neither a drift nor what comes first favours one. Each look after some more rounds says which cases
are still unknown; the others are left alone.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

from harness.errors import HarnessError
from harness.run import RunRecord
from harness.store.rows import StoredRun
from harness.suite import Planned
from harness.suite.case import Case
from harness.sweep.executor import Executor
from harness.sweep.history import History
from harness.sweep.interruption import Interruption, StopRequestedError
from harness.sweep.order import Turn, point, turns
from harness.sweep.plan import SweepPlan
from harness.sweep.progress import Progress
from harness.sweep.run import RunStore

# Given the runs of base and head so far: hashes of the cases that more rounds could decide.
Decide = Callable[[Sequence[StoredRun], Sequence[StoredRun]], Collection[str]]


@dataclass
class Side:
    """One revision that is measured, with what came out of it so far."""

    sweep_id: int
    executor: Executor
    runs: list[StoredRun] = field(default_factory=list)
    history: History = field(default_factory=History)


@dataclass(frozen=True)
class Looks:
    """When to look: after these many rounds, `most` of them at the end; `decide` says at what."""

    bounds: Iterator[int]
    most: int
    decide: Decide


def measure_pairs(
    plan: SweepPlan,
    sides: tuple[Side, Side],
    looks: Looks,
    *,
    store: RunStore,
    progress: Progress,
    interruption: Interruption,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Measure pairs until all cases are decided or rounds or budget end; whether all was made.

    Both sweeps are closed. A side whose run fails ends its case: a result carries the worst status.
    """
    loop = _Loop(plan, sides, looks, store, progress, interruption, clock)
    try:
        complete = loop.measure()
    except BaseException as error:
        for side in sides:
            # The first failure is the one to tell.
            with suppress(HarnessError):
                store.end_sweep(
                    side.sweep_id,
                    "interrupted" if isinstance(error, KeyboardInterrupt) else "failed",
                )
        raise
    for side in sides:
        store.end_sweep(side.sweep_id, "complete" if complete else "interrupted")
    return complete


def heads_first(case: Case, number: int, seed: int) -> bool:
    """Whether the head goes first in a round of a case: drawn for even rounds, turned for odd."""
    drawn = Random(f"first {seed} {case.hash} {number // 2}").random() < 0.5
    return drawn != bool(number % 2)


class _Loop:
    """One execution of a plan: the state that its pairs share."""

    def __init__(
        self,
        plan: SweepPlan,
        sides: tuple[Side, Side],
        looks: Looks,
        store: RunStore,
        progress: Progress,
        interruption: Interruption,
        clock: Callable[[], float],
    ) -> None:
        self._plan = plan
        self._sides = sides
        self._looks = looks
        self._store = store
        self._progress = progress
        self._interruption = interruption
        self._clock = clock
        self._start = clock()
        self._slot = 0
        self._seconds: dict[str, float] = {}  # what the last pair of a case took
        self._planned = turns([point(p.case) for p in plan.cases], looks.most, plan.seed)

    def measure(self) -> bool:
        """Rounds and looks until nothing is open; False when the budget or a signal ended it."""
        self._record_unmade()
        wanted: Collection[str] = {p.case.hash for p in self._plan.cases if p.runnable}
        done = 0
        for planned_bound in self._looks.bounds:
            bound = min(planned_bound, self._looks.most)
            waiting = [
                t for t in self._planned if done <= t.round < bound and self._open(t, wanted)
            ]
            self._progress.begin(2 * len(waiting), self._expected_s(waiting))
            for place, turn in enumerate(waiting):
                if self._interruption.requested or not self._fits(turn):
                    return False
                if self._open(turn, wanted):
                    try:
                        self._pair(turn, waiting[place + 1 :])
                    except StopRequestedError:
                        return False
                else:
                    self._progress.skip(2)
            done = bound
            if done >= self._looks.most:
                break
            base, head = self._sides
            wanted = self._looks.decide(base.runs, head.runs)
            if not wanted:
                break
            self._progress.note(f"after {done} rounds {len(wanted)} cases are not decided")
        return True

    def _record_unmade(self) -> None:
        """A row on both sides for each case that cannot run."""
        for turn in self._planned:
            planned = self._plan.cases[turn.case]
            if turn.round == 0 and planned.unsupported is not None:
                for side in self._sides:
                    self._save(side, planned, _unmade(planned, turn))

    def _pair(self, turn: Turn, rest: Sequence[Turn]) -> None:
        """One run of each side, next to each other."""
        case = self._plan.cases[turn.case].case
        begun = self._clock()
        order = self._sides[::-1] if heads_first(case, turn.round, self._plan.seed) else self._sides
        for side in order:
            self._run(side, Turn(turn.case, turn.round, self._slot), rest)
            self._slot += 1
        self._seconds[case.hash] = self._clock() - begun

    def _run(self, side: Side, turn: Turn, rest: Sequence[Turn]) -> None:
        """One run, and again while it comes out invalid and may be tried again."""
        planned = self._plan.cases[turn.case]
        attempt = side.history.attempt(planned.case, turn.round)
        while attempt is not None:
            self._progress.start(planned.case, turn.round)
            begun = self._clock()
            record = side.executor.submit(self._plan.job(turn, attempt))
            self._save(side, planned, record)
            took_s = self._clock() - begun
            attempt = side.history.attempt(planned.case, turn.round)
            if attempt is not None:
                self._progress.note(f"{planned.case.title}: invalid ({record.reason}); once more")
                self._pause()
        self._progress.finish(planned.case, record, took_s, self._expected_s(rest))

    def _save(self, side: Side, planned: Planned, record: RunRecord) -> None:
        run_id = self._store.save_run(side.sweep_id, planned.case, record)
        side.history.add(planned.case, record)
        side.runs.append(StoredRun(run_id, planned.case, record))

    def _open(self, turn: Turn, wanted: Collection[str]) -> bool:
        """Whether a pair of this case can still say something."""
        case = self._plan.cases[turn.case].case
        settled = any(side.history.skip(case) is not None for side in self._sides)
        return case.hash in wanted and not settled

    def _fits(self, turn: Turn) -> bool:
        """Whether the budget has room for another pair."""
        if self._plan.budget_s is None:
            return True
        left_s = self._start + self._plan.budget_s - self._clock()
        return self._expected_s([turn]) <= left_s

    def _expected_s(self, waiting: Sequence[Turn]) -> float:
        total_s = 0.0
        for turn in waiting:
            case = self._plan.cases[turn.case].case
            total_s += self._seconds.get(case.hash, 2 * self._plan.expected_s(case))
        return total_s

    def _pause(self) -> None:
        """Wait before another attempt; a request to stop ends the wait and the job."""
        if select.select([self._interruption.fd], [], [], self._plan.retry_pause_s)[0]:
            raise StopRequestedError("asked to stop")


def _unmade(planned: Planned, turn: Turn) -> RunRecord:
    return RunRecord(
        case_hash=planned.case.hash,
        status="unsupported",
        reason=planned.unsupported,
        round=turn.round,
        order_slot=turn.order_slot,
        started_at=datetime.now(UTC),
        seconds=0.0,
    )
