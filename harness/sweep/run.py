"""The loop of a sweep: turn after turn a job is made, run and stored, until it ends or is stopped.

Each run is stored at once, so that nothing finished is lost however the sweep ends.
"""

from __future__ import annotations

import select
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol

from harness.errors import HarnessError
from harness.run import RunRecord, Status
from harness.store.rows import SweepStatus
from harness.suite.case import Case
from harness.sweep.budget import Expectation, choose
from harness.sweep.executor import Executor
from harness.sweep.history import History
from harness.sweep.interruption import Interruption, StopRequestedError
from harness.sweep.order import Turn, point, turns
from harness.sweep.outcome import Outcome
from harness.sweep.plan import SweepPlan
from harness.sweep.progress import Progress


class RunStore(Protocol):
    """What the loop needs of `harness.store.Store`."""

    def save_run(self, sweep_id: int, case: Case, record: RunRecord) -> int:
        """Store a run in one transaction; its id."""
        ...

    def end_sweep(self, sweep_id: int, status: SweepStatus) -> None:
        """Close a sweep."""
        ...


def measure(
    plan: SweepPlan,
    sweep_id: int,
    *,
    executor: Executor,
    store: RunStore,
    progress: Progress,
    history: History,
    interruption: Interruption,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Make every run of the plan that `history` does not hold, store each, and close the sweep.

    Returns when all is done, when the budget is used up or when `interruption` asks for it. Any
    other end (the store fails, a device hangs) closes the sweep as failed and is raised.
    """
    loop = _Loop(plan, sweep_id, executor, store, progress, history, interruption, clock)
    try:
        loop.record_what_needs_no_process()
        loop.make_runs()
    except BaseException as error:
        status: SweepStatus = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        # A store that failed once may fail again; the first failure is the one to tell.
        with suppress(HarnessError):
            store.end_sweep(sweep_id, status)
        raise
    outcome = Outcome(sweep_id, history.statuses(), tuple(loop.left_out), interruption.signum)
    store.end_sweep(sweep_id, "complete" if outcome.complete else "interrupted")
    return outcome


class _Loop:
    """One execution of a plan: the state that its turns share."""

    def __init__(
        self,
        plan: SweepPlan,
        sweep_id: int,
        executor: Executor,
        store: RunStore,
        progress: Progress,
        history: History,
        interruption: Interruption,
        clock: Callable[[], float],
    ) -> None:
        self.left_out: list[Case] = []
        self._plan = plan
        self._sweep_id = sweep_id
        self._executor = executor
        self._store = store
        self._progress = progress
        self._history = history
        self._interruption = interruption
        self._clock = clock
        self._start = clock()
        self._waiting: Counter[int] = Counter()  # turns to come, by the case's place
        self._turns = turns(
            [point(planned.case) for planned in plan.cases], plan.measure.rounds, plan.seed
        )
        self._expectation = Expectation(
            {planned.case.hash: plan.expected_s(planned.case) for planned in plan.cases}
        )

    def record_what_needs_no_process(self) -> None:
        """Store one row for each case that cannot run or is expected not to fit."""
        for turn in self._turns:
            planned = self._plan.cases[turn.case]
            if turn.round > 0 or self._history.attempt(planned.case, turn.round) is None:
                continue
            if planned.unsupported is not None:
                self._save_unmade(turn, "unsupported", planned.unsupported)
            elif (reason := self._plan.too_large(planned.case)) is not None:
                self._save_unmade(turn, "oom_predicted", reason)

    def make_runs(self) -> None:
        """Take the turns that are left until the end, the budget's end or a request to stop."""
        waiting = [turn for turn in self._turns if self._open(turn)]
        self._waiting = Counter(turn.case for turn in waiting if self._pending(turn))
        self._progress.begin(len(waiting), self._left_s())
        while waiting and not self._interruption.requested:
            place = self._next(waiting)
            if place < 0:
                break
            turn = waiting.pop(place)
            self._waiting[turn.case] -= 1
            if self._pending(turn):
                try:
                    self._take(turn)
                except StopRequestedError:
                    return
            else:
                self._pass_over(turn)
        if not self._interruption.requested:
            self.left_out = [self._case(turn) for turn in waiting if self._pending(turn)]

    def _next(self, waiting: Sequence[Turn]) -> int:
        """Which turn to take; -1 when the budget has room for none."""
        if self._plan.budget_s is None:
            return 0
        left_s = self._start + self._plan.budget_s - self._clock()
        return choose(waiting, lambda turn: self._expected_s(turn.case), left_s)

    def _take(self, turn: Turn) -> None:
        """Make one run, and again while it comes out invalid and may be tried again."""
        case = self._case(turn)
        attempt = self._history.attempt(case, turn.round)
        while attempt is not None:
            self._progress.start(case, turn.round)
            begun = self._clock()
            record = self._executor.submit(self._plan.job(turn, attempt))
            self._store.save_run(self._sweep_id, case, record)
            self._history.add(case, record)
            took_s = self._clock() - begun
            self._expectation.observe(case.hash, took_s)
            attempt = self._history.attempt(case, turn.round)
            if attempt is not None:
                self._progress.note(
                    f"{case.title}, round {turn.round}: invalid ({record.reason}); "
                    f"tried again in {self._plan.retry_pause_s:g} s"
                )
                self._pause()
        if self._history.skip(case) is not None:
            # Its later turns will be passed over at once.
            self._waiting[turn.case] = 0
        self._progress.finish(case, record, took_s, self._left_s())

    def _pass_over(self, turn: Turn) -> None:
        """A turn that became needless; it has a row where no other row of the case tells why."""
        skip = self._history.skip(self._case(turn))
        if skip is not None and self._open(turn):
            self._save_unmade(turn, "skipped", skip.reason)
        self._progress.skip(1)

    def _save_unmade(self, turn: Turn, status: Status, reason: str) -> None:
        case = self._case(turn)
        record = RunRecord(
            case_hash=case.hash,
            status=status,
            reason=reason,
            round=turn.round,
            order_slot=turn.order_slot,
            started_at=datetime.now(UTC),
            seconds=0.0,
        )
        self._store.save_run(self._sweep_id, case, record)
        self._history.add(case, record)

    def _case(self, turn: Turn) -> Case:
        return self._plan.cases[turn.case].case

    def _open(self, turn: Turn) -> bool:
        """Whether the turn lacks a row: of a run, or of the reason why there is none."""
        if self._history.attempt(self._case(turn), turn.round) is None:
            return False
        skip = self._history.skip(self._case(turn))
        return skip is None or skip.stored

    def _pending(self, turn: Turn) -> bool:
        """Whether the turn still needs a process."""
        return self._open(turn) and self._history.skip(self._case(turn)) is None

    def _expected_s(self, place: int) -> float:
        return self._expectation.seconds(self._plan.cases[place].case.hash)

    def _left_s(self) -> float:
        """Expected seconds of all waiting turns, within the budget."""
        left_s = sum(n * self._expected_s(place) for place, n in self._waiting.items() if n > 0)
        if self._plan.budget_s is None:
            return left_s
        return min(left_s, max(0.0, self._start + self._plan.budget_s - self._clock()))

    def _pause(self) -> None:
        """Wait before another attempt; a request to stop ends the wait and the sweep."""
        if select.select([self._interruption.fd], [], [], self._plan.retry_pause_s)[0]:
            raise StopRequestedError("asked to stop")
