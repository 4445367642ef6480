"""The loop of a sweep against an executor and a store that are made up."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

import pytest

from harness.errors import InfrastructureError, UsageError
from harness.run import RunRecord
from harness.store.rows import StoredRun
from harness.suite import Planned
from harness.suite.case import Case, GateSettings, MeasureSettings
from harness.sweep.expect import Expected
from harness.sweep.history import History
from harness.sweep.interruption import Interruption, StopRequestedError
from harness.sweep.order import point, turns
from harness.sweep.outcome import Outcome
from harness.sweep.plan import SweepPlan
from harness.sweep.run import measure
from harness.worker.job import Job

MakeCase = Callable[..., Case]
MakeRecord = Callable[..., RunRecord]
Answer = Callable[[Job], str]


class Bench:
    """An executor, a store, progress and a clock in one, which note what they are told."""

    def __init__(self, make_record: MakeRecord, answer: Answer, costs_s: dict[str, float]) -> None:
        self.jobs: list[Job] = []
        self.saved: list[StoredRun] = []
        self.ended: list[str] = []
        self.notes: list[str] = []
        self.now_s = 0.0
        self._make_record = make_record
        self._answer = answer
        self._costs_s = costs_s

    def submit(self, job: Job) -> RunRecord:
        self.jobs.append(job)
        self.now_s += self._costs_s.get(job.case.label, 1.0)
        status = self._answer(job)
        return self._make_record(job.case, status, job.round, job.attempt, job.order_slot)

    def save_run(self, sweep_id: int, case: Case, record: RunRecord) -> int:
        self.saved.append(StoredRun(len(self.saved) + 1, case, record))
        return len(self.saved)

    def end_sweep(self, sweep_id: int, status: str) -> None:
        self.ended.append(status)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return

    def begin(self, runs: int, expected_s: float) -> None:
        self.notes.append(f"{runs} runs in {expected_s:g} s")

    def start(self, case: Case, number: int) -> None:
        return

    def finish(self, case: Case, record: RunRecord, took_s: float, left_s: float) -> None:
        self.notes.append(f"{case.title} {record.status} {took_s:g} {left_s:g}")

    def skip(self, runs: int) -> None:
        return

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def rows(self) -> list[tuple[str, int, int, str]]:
        """What was stored: case, round, attempt, status."""
        return [
            (run.case.title, run.record.round, run.record.attempt, run.record.status)
            for run in self.saved
        ]


@pytest.fixture
def interruption() -> Iterator[Interruption]:
    with Interruption() as made:
        yield made


def plan(cases: list[Case], rounds: int = 1, **fields: Any) -> SweepPlan:
    planned = [Planned(case, None, None) for case in cases]
    settings = MeasureSettings(rounds=rounds, max_seconds=1.0)
    values: dict[str, Any] = {"seed": 3, "retry_pause_s": 0.0, **fields}
    return SweepPlan(planned, settings, GateSettings(), **values)


@pytest.fixture
def go(make_record: MakeRecord, interruption: Interruption) -> Callable[..., tuple[Bench, Outcome]]:
    def run(
        planned: SweepPlan,
        answer: Answer = lambda job: "ok",
        history: History | None = None,
        costs_s: dict[str, float] | None = None,
    ) -> tuple[Bench, Outcome]:
        bench = Bench(make_record, answer, costs_s or {})
        outcome = measure(
            planned,
            7,
            executor=bench,
            store=bench,
            progress=bench,
            history=history or History(),
            interruption=interruption,
            clock=lambda: bench.now_s,
        )
        return bench, outcome

    return run


Go = Callable[..., tuple[Bench, Outcome]]


def test_every_case_is_measured_in_every_round_in_the_seeded_order(
    go: Go, make_case: MakeCase
) -> None:
    cases = [make_case(batch=batch) for batch in (1, 2, 3, 4)]
    bench, outcome = go(plan(cases, rounds=3, device="cuda", plugin_paths=("/p",)))
    expected = [
        (cases[t.case], t.round, t.order_slot) for t in turns([point(c) for c in cases], 3, seed=3)
    ]
    assert [(job.case, job.round, job.order_slot) for job in bench.jobs] == expected
    assert [(run.case, run.record.round) for run in bench.saved] == [e[:2] for e in expected]
    assert {(job.seed, job.device, job.plugin_paths) for job in bench.jobs} == {
        (3, "cuda", ("/p",))
    }
    assert (bench.ended, outcome.exit_code, outcome.complete) == (["complete"], 0, True)
    assert outcome.statuses == {"ok": 12}


def test_failed_case_is_not_measured_again(go: Go, make_case: MakeCase) -> None:
    bad, good = make_case(label="bad"), make_case(label="good")
    bench, outcome = go(
        plan([bad, good], rounds=3), lambda job: "crashed" if job.case == bad else "ok"
    )
    assert [row[3] for row in bench.rows()].count("crashed") == 1
    assert outcome.statuses == {"crashed": 1, "ok": 3}
    assert (bench.ended, outcome.exit_code) == (["complete"], 1)


def test_larger_cases_are_skipped_after_lack_of_memory(go: Go, make_case: MakeCase) -> None:
    """One out of memory ends no sweep and is not repeated larger (ggml-org/llama.cpp#22815)."""
    cases = [make_case(batch=batch) for batch in (1, 8, 16, 32)]
    bench, outcome = go(
        plan(cases, rounds=2), lambda job: "oom" if job.case.workload.batch >= 8 else "ok"
    )
    measured = {job.case.generated.batch for job in bench.jobs}
    exhausted = {b for t, _, _, s in bench.rows() if s == "oom" for b in [t.split()[1]]}
    skipped = {t.split()[1] for t, _, _, s in bench.rows() if s == "skipped"}
    assert 1 in measured
    assert exhausted | skipped == {"B8", "B16", "B32"}
    assert outcome.statuses["ok"] == 2
    # Each of the others has exactly one row, which says why it has no number.
    assert len(bench.rows()) == 2 + 3


def test_skipped_rows_say_why(go: Go, make_case: MakeCase) -> None:
    small, large = make_case(batch=1), make_case(batch=2)
    history = History([StoredRun(1, small, record) for record in [_oom(small)]])
    bench, _ = go(plan([small, large]), history=history)
    assert bench.jobs == []
    [run] = bench.saved
    assert (run.case, run.record.status) == (large, "skipped")
    assert run.record.reason == "mha B1 P8 N4 ran out of memory, and this is no smaller"


def _oom(case: Case) -> RunRecord:
    return RunRecord.model_validate(
        {
            "case_hash": case.hash, "status": "oom", "round": 0, "order_slot": 0,
            "started_at": "2026-01-01T00:00:00Z", "seconds": 1.0,
        }
    )  # fmt: skip


def test_what_cannot_run_has_one_row_and_no_process(go: Go, make_case: MakeCase) -> None:
    case, huge = make_case(), make_case(label="huge")
    planned = plan(
        [case, huge],
        rounds=2,
        expected={huge.hash: Expected(2_000_000_000, 1.0), case.hash: Expected(10, 1.0)},
        available_bytes=1_000_000_000,
    )
    unsupported = Planned(make_case(label="odd"), None, "odd does not fit")
    planned = SweepPlan(**{**vars(planned), "cases": [*planned.cases, unsupported]})
    bench, outcome = go(planned)
    assert [job.case for job in bench.jobs] == [case, case]
    reasons = {run.record.status: run.record.reason for run in bench.saved}
    assert reasons["oom_predicted"] == "needs about 2.0 GB of memory, and 1.0 GB are available"
    assert reasons["unsupported"] == "odd does not fit"
    assert outcome.statuses == {"ok": 2, "oom_predicted": 1, "unsupported": 1}
    assert outcome.exit_code == 0


def test_nothing_measured_is_exit_code_3(go: Go, make_case: MakeCase) -> None:
    planned = SweepPlan(
        [Planned(make_case(), None, "no")], MeasureSettings(), GateSettings(), seed=1
    )
    assert go(planned)[1].exit_code == 3


def test_invalid_run_is_tried_again_with_its_attempts_stored(go: Go, make_case: MakeCase) -> None:
    bench, outcome = go(plan([make_case()]), lambda job: "invalid" if job.attempt < 3 else "ok")
    assert [row[2:] for row in bench.rows()] == [(1, "invalid"), (2, "invalid"), (3, "ok")]
    assert outcome.exit_code == 0


def test_invalid_for_ever_ends(go: Go, make_case: MakeCase) -> None:
    bench, outcome = go(plan([make_case()], rounds=2), lambda job: "invalid")
    assert [row[1:] for row in bench.rows()] == [(0, n, "invalid") for n in (1, 2, 3)]
    assert outcome.exit_code == 1


def test_budget_leaves_out_what_does_not_fit_and_says_so(go: Go, make_case: MakeCase) -> None:
    cheap, dear = make_case(label="cheap"), make_case(label="dear")
    planned = plan(
        [cheap, dear],
        rounds=2,
        budget_s=10.0,
        expected={cheap.hash: Expected(1, 2.0), dear.hash: Expected(1, 50.0)},
    )
    bench, outcome = go(planned, costs_s={"cheap": 2.0, "dear": 50.0})
    assert [row[:2] for row in bench.rows()] == [("cheap B1 P8 N4", 0), ("cheap B1 P8 N4", 1)]
    assert outcome.left_out == (dear, dear)
    # Not complete, so that --resume continues it.
    assert (bench.ended, outcome.complete, outcome.exit_code) == (["interrupted"], False, 0)
    assert bench.now_s <= 10.0


def test_budget_learns_what_runs_take(go: Go, make_case: MakeCase) -> None:
    """Estimates ten times too high leave nothing out once the first runs have shown it."""
    cases = [make_case(batch=batch) for batch in range(1, 6)]
    planned = plan(cases, budget_s=12.0, expected={case.hash: Expected(1, 10.0) for case in cases})
    bench, outcome = go(planned)
    assert len(bench.rows()) == 5
    assert outcome.complete


def test_stop_between_runs(go: Go, make_case: MakeCase, interruption: Interruption) -> None:
    def answer(job: Job) -> str:
        interruption.request(signal.SIGTERM)
        return "ok"

    bench, outcome = go(plan([make_case(), make_case(batch=2)]), answer)
    # The run that had ended is kept.
    assert len(bench.saved) == 1
    assert (bench.ended, outcome.exit_code) == (["interrupted"], 143)


def test_stop_during_a_run(go: Go, make_case: MakeCase, interruption: Interruption) -> None:
    def answer(job: Job) -> str:
        interruption.request()
        raise StopRequestedError

    bench, outcome = go(plan([make_case(), make_case(batch=2)]), answer)
    assert bench.saved == []
    assert (bench.ended, outcome.exit_code) == (["interrupted"], 130)


def test_stop_while_waiting_to_try_again(
    go: Go, make_case: MakeCase, interruption: Interruption
) -> None:
    def answer(job: Job) -> str:
        interruption.request()
        return "invalid"

    bench, outcome = go(plan([make_case()], retry_pause_s=600.0), answer)
    assert (len(bench.saved), outcome.exit_code) == (1, 130)


@pytest.mark.parametrize(
    ("error", "ended"),
    [(InfrastructureError("gone"), "failed"), (KeyboardInterrupt(), "interrupted")],
)
def test_other_ends_close_the_sweep(
    go: Go, make_case: MakeCase, make_record: MakeRecord, error: BaseException, ended: str
) -> None:
    benches: list[str] = []

    class Failing(Bench):
        def end_sweep(self, sweep_id: int, status: str) -> None:
            benches.append(status)
            raise UsageError("the disk is full")

    def answer(job: Job) -> str:
        raise error

    bench = Failing(make_record, answer, {})
    # The first failure is told, not that of closing the sweep.
    with Interruption() as interruption, pytest.raises(type(error)):
        measure(
            plan([make_case()]), 7, executor=bench, store=bench, progress=bench,
            history=History(), interruption=interruption,
        )  # fmt: skip
    assert benches == [ended]


def test_resumed_sweep_makes_only_what_is_missing(
    go: Go, make_case: MakeCase, make_record: MakeRecord
) -> None:
    """Cut anywhere, the two parts together are the whole, each run once and in its place."""
    cases = [make_case(batch=batch) for batch in (1, 2, 3)]
    planned = plan(cases, rounds=2)
    whole, _ = go(planned)
    for cut in range(7):
        stored = whole.saved[:cut]
        bench, outcome = go(planned, history=History(stored))
        places = [(run.case, run.record.order_slot) for run in [*stored, *bench.saved]]
        assert places == [(run.case, run.record.order_slot) for run in whole.saved]
        assert outcome.statuses == {"ok": 6}


def test_time_left_is_told(go: Go, make_case: MakeCase) -> None:
    cases = [make_case(batch=batch) for batch in (1, 2)]
    planned = plan(cases, expected={case.hash: Expected(1, 2.0) for case in cases})
    bench, _ = go(planned)
    # The first took 1 s instead of 2 s, so the second is expected to take 1 s as well.
    assert bench.notes[0] == "2 runs in 4 s"
    assert bench.notes[1].endswith("ok 1 1")
    assert bench.notes[2].endswith("ok 1 0")
