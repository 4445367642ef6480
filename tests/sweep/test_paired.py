"""Pairs in one job: their order, the looks, the budget, and a whole comparison of two revisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.looks import schedule
from harness.hardware.ceilings import Ceilings
from harness.hardware.detection import detect
from harness.report.verdicts.stored import verdicts_of
from harness.run import RunRecord
from harness.store import StoredRun, open_reader
from harness.suite import Planned
from harness.suite.case import Case, GateSettings, MeasureSettings
from harness.sweep.interruption import Interruption
from harness.sweep.pair_session import Pairing, run_pairs
from harness.sweep.paired import Looks, Side, heads_first, measure_pairs
from harness.sweep.plan import SweepPlan
from harness.sweep.progress import PlainProgress
from harness.worker.job import Job


class Store:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.saved: list[tuple[int, RunRecord]] = []
        self.ended: dict[int, str] = {}

    def save_run(self, sweep_id: int, case: Case, record: RunRecord) -> int:
        self.saved.append((sweep_id, record))
        return len(self.saved)

    def end_sweep(self, sweep_id: int, status: str) -> None:
        self.ended[sweep_id] = status


class Answering:
    """Answers each job with a record, `status` by case and attempt."""

    def __init__(self, make: Callable[..., RunRecord], statuses: dict[str, list[str]]) -> None:
        self._make, self._statuses = make, statuses
        self.jobs: list[Job] = []

    def submit(self, job: Job) -> RunRecord:
        self.jobs.append(job)
        left = self._statuses.get(job.case.label, [])
        status = left.pop(0) if left else "ok"
        return self._make(job.case, status, job.round, job.attempt, job.order_slot)


class Silent(PlainProgress):
    """Says nothing."""

    def __init__(self) -> None:
        pass

    def __getattribute__(self, name: str) -> Any:
        return lambda *_: None


Made = Callable[..., tuple[bool, Store, tuple[Side, Side]]]


@pytest.fixture
def made(
    make_case: Callable[..., Case],
    make_record: Callable[..., RunRecord],
    monkeypatch: pytest.MonkeyPatch,
) -> Made:
    """measure_pairs on fakes: labels, rounds, and what is decided at each look."""

    def run(
        labels: Sequence[str] = ("mha", "gqa"),
        bounds: Sequence[int] = (4,),
        decide: Callable[..., Collection[str]] = lambda *_: (),
        base: dict[str, list[str]] | None = None,
        head: dict[str, list[str]] | None = None,
        stop_after: int | None = None,
        unsupported: str | None = None,
        **plan: Any,
    ) -> tuple[bool, Store, tuple[Side, Side]]:
        cases = [make_case(label) for label in labels]
        planned = [
            Planned(case, None, "no fp8" if case.label == unsupported else None) for case in cases
        ]
        sides = (
            Side(1, Answering(make_record, base or {})),
            Side(2, Answering(make_record, head or {})),
        )
        ticks = iter(range(10_000))
        store = Store()
        with Interruption() as interruption:
            if stop_after is not None:
                inner = store.save_run

                def save(*arguments: Any) -> int:
                    if len(store.saved) + 1 == stop_after:
                        interruption.request()
                    return inner(*arguments)

                monkeypatch.setattr(store, "save_run", save)
            complete = measure_pairs(
                SweepPlan(
                    planned, MeasureSettings(), GateSettings(), seed=3, retry_pause_s=0, **plan
                ),
                sides,
                Looks(iter(bounds), bounds[-1], decide),
                store=store,
                progress=Silent(),
                interruption=interruption,
                clock=lambda: next(ticks),
            )
        return complete, store, sides

    return run


def test_the_runs_of_a_pair_stand_side_by_side_and_turn_round(made: Made) -> None:
    """ABBA: blocked arms flag 57 % of nothings under drift, a fixed order 54 % where going first
    costs 1 %."""
    complete, store, (base, head) = made(bounds=(8,))
    assert complete
    assert store.ended == {1: "complete", 2: "complete"}
    places = [
        {(run.case.label, run.record.round): run.record.order_slot for run in side.runs}
        for side in (base, head)
    ]
    for label in ("mha", "gqa"):
        apart = [places[1][label, n] - places[0][label, n] for n in range(8)]
        assert set(apart) == {1, -1}
        assert [a + b for a, b in zip(apart[::2], apart[1::2], strict=True)] == [0, 0, 0, 0]
    slots = sorted(slot for side in places for slot in side.values())
    assert slots == list(range(32))


def test_who_goes_first_is_drawn_and_the_same_everywhere(make_case: Callable[..., Case]) -> None:
    of = make_case("mha")
    drawn = [heads_first(of, n, 3) for n in range(0, 400, 2)]
    assert 60 < sum(drawn) < 140
    assert all(heads_first(of, n, 3) != heads_first(of, n + 1, 3) for n in range(0, 20, 2))


def test_only_undecided_cases_are_measured_further(made: Made) -> None:
    def decide(base: Sequence[StoredRun], head: Sequence[StoredRun]) -> Collection[str]:
        assert len(base) == len(head)
        return {run.case.hash for run in base if run.case.label == "gqa" and len(base) < 13}

    complete, _, (base, _) = made(bounds=(4, 6, 9, 100), decide=decide)
    assert complete
    assert Counter(run.case.label for run in base.runs) == {"mha": 4, "gqa": 9}


def test_a_side_that_fails_ends_its_case_and_no_other(made: Made) -> None:
    _, _, (base, head) = made(head={"gqa": ["ok", "crashed"]}, bounds=(5,))
    assert Counter(run.case.label for run in base.runs) == {"mha": 5, "gqa": 2}
    assert [r.record.status for r in head.runs if r.case.label == "gqa"] == ["ok", "crashed"]


def test_an_invalid_run_is_tried_again_beside_its_pair(made: Made) -> None:
    """NVIDIA/nvbench#231: bounded retries, then it stays invalid."""
    _, _, (base, head) = made(("mha",), (2,), base={"mha": ["invalid", "ok"]},
                              head={"mha": ["invalid"] * 9})  # fmt: skip
    assert [(r.record.attempt, r.record.status) for r in base.runs] == [(1, "invalid"), (2, "ok")]
    assert [r.record.attempt for r in head.runs] == [1, 2, 3]


def test_a_case_that_cannot_run_is_a_row_on_both_sides(made: Made) -> None:
    _, _, sides = made(unsupported="gqa", bounds=(2,))
    for side in sides:
        assert [r.record.reason for r in side.runs if r.case.label == "gqa"] == ["no fp8"]


def test_the_budget_ends_between_pairs(made: Made) -> None:
    complete, store, (base, head) = made(("mha",), (100,), budget_s=60)
    assert not complete
    assert store.ended == {1: "interrupted", 2: "interrupted"}
    assert 2 <= len(base.runs) == len(head.runs) < 40


def test_a_request_to_stop_keeps_what_is_finished(made: Made) -> None:
    complete, store, _ = made(bounds=(8,), stop_after=4)
    assert not complete
    assert len(store.saved) == 4
    assert set(store.ended.values()) == {"interrupted"}


# Two revisions of a made-up repository, whose workers are real processes of their own code.

SUITE = """
suite: two
stacks: [mha, gqa]
model: tiny
workload: {kind: generate, batch: 1, prompt_tokens: 8, new_tokens: 4}
"""


def test_two_revisions_from_end_to_end(
    make_repository: Callable[..., Path], tmp_path: Path, example_sweep: Any
) -> None:
    """A change of 20 % between two commits: each worker runs its own side's code, the pairs are
    stored as two sweeps of their revisions, and judged as they were when they were measured."""
    from harness.suite import Suite, cases, document
    from harness.sweep import Order

    repo = make_repository({"v1": 1_000_000, "v2": 1_200_000})
    suite = Suite.of(document.read(SUITE, "two"))
    order = Order(suite, "cpu", tuple(cases(suite, "cpu")), ("compare", "--run", "v1", "v2", "two"))
    device = detect("cpu")
    url = str(tmp_path / "pairs.db")
    outcome = run_pairs(
        order,
        Pairing("v1", "v2", schedule(4), 4, lambda *_: (), repo),
        device,
        url=url,
        progress=Silent(),
        lock=tmp_path / "lock",
        limits=lambda *_: Ceilings(source="made up", bandwidth_bytes_per_s=1e9, flops_per_s={}),
    )
    assert outcome.complete
    with open_reader(url) as reader:
        rows = [reader.sweep(n) for n in (outcome.base_id, outcome.head_id)]
        runs = [reader.runs(row.id) for row in rows]
    assert {run.record.status for side in runs for run in side} == {"ok"}
    commits = [row.revision.commit for row in rows if row.revision is not None]
    assert len(set(commits)) == 2
    assert {row.revision.repo for row in rows if row.revision} == {repo.name}
    from harness.analysis.sides import Stored

    base, head = (Stored(row, tuple(side)) for row, side in zip(rows, runs, strict=True))
    told = verdicts_of(base, head, example_sweep.STARTED, ["tpot"])
    assert told.title == f"v1 ({commits[0][:12]}) against v2 ({commits[1][:12]})"
    assert [row.ratio for row in told.rows] == pytest.approx([1 / 1.2, 1 / 1.2], rel=0.01)
    assert [row.n for row in told.rows] == [4, 4]
    pids = [run.record.telemetry["pid"] for side in runs for run in side]
    assert len(set(pids)) == 16
    assert all(a != b for a, b in pairwise(pids))
