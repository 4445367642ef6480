"""Writers to count and to kill: `python writers.py URL PROCESSES RUNS ROUNDS_OF_KILLS`.

Forks PROCESSES writers that save RUNS runs each in one sweep. With kills, RUNS is without end and
all writers of a round get SIGKILL at a random moment. Prints "process run" for each run whose
saving was acknowledged: an acknowledged run must be in the database, whatever happened to its
writer. (No test_ prefix: pytest runs it in a process of its own, which may fork.)
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from datetime import UTC, datetime
from itertools import count

import alembic.command  # noqa: F401 (imported once, before the forks)

import harness.store.store  # noqa: F401 (the same)
from harness.run import GateResult, MetricValue, RunRecord, SampleSet
from harness.store import EnvironmentRow, HardwareRow, SweepStart, open_store
from harness.suite.case import Case, Choice, StackSpec
from harness.suite.points import GeneratePoint

START = datetime(2026, 3, 1, tzinfo=UTC)


def main(url: str, processes: int, runs: int, kills: int) -> None:
    """Fork writers, kill them where asked, wait for them."""
    for attempt in range(max(kills, 1)):
        acknowledged, acknowledge = os.pipe()
        writers = []
        for process in range(processes):
            pid = os.fork()
            if pid == 0:
                number = attempt * processes + process
                _write(url, number, None if kills else runs, acknowledge)
                os._exit(0)
            writers.append(pid)
        os.close(acknowledge)
        if kills:
            # The first round may die while it makes the tables; the others die while they write.
            if attempt > 0:
                os.read(acknowledged, 1)
            time.sleep(random.uniform(0.0, 0.2))
            for pid in writers:
                os.kill(pid, signal.SIGKILL)
        statuses = [os.waitpid(pid, 0)[1] for pid in writers]
        os.close(acknowledged)
        if not kills and any(statuses):
            sys.exit(f"writers failed: {statuses}")


def _write(url: str, process: int, runs: int | None, acknowledge: int) -> None:
    # All create or upgrade the same database at once.
    with open_store(url) as store:
        sweep_id = store.begin_sweep(_sweep())
        for n in count() if runs is None else range(runs):
            case = _case(process)
            store.save_run(sweep_id, case, _run(case, n))
            os.write(1, f"{process} {n}\n".encode())
            os.write(acknowledge, b".")


def _sweep() -> SweepStart:
    return SweepStart(
        uid="f" * 32,
        suite="writers",
        suite_hash="a" * 64,
        suite_text="",
        argv=(),
        seed=0,
        started_at=START,
        hardware=HardwareRow(kind="cpu", name="x", arch="x", memory_bytes=1, count=1, cpu="x"),
        environment=EnvironmentRow(python="3", os="Linux"),
    )


def _case(process: int) -> Case:
    return Case(
        stack=StackSpec(
            label="mha",
            architecture=(Choice(technique="mha"),),
            weights=Choice(technique="dense"),
            cache=Choice(technique="contiguous"),
            decoding=Choice(technique="autoregressive"),
            scheduling=Choice(technique="static"),
        ),
        model="tiny",
        checkpoint_hash=None,
        workload=GeneratePoint(batch=process + 1, prompt_tokens=1, new_tokens=1),
    )


def _run(case: Case, number: int) -> RunRecord:
    return RunRecord(
        case_hash=case.hash,
        status="ok",
        round=number,
        order_slot=0,
        started_at=START,
        seconds=1.0,
        metrics=[MetricValue(name=name, value=1.0) for name in ("tpot", "ttft")],
        samples=[SampleSet(metric="tpot", unit="ns", values=list(range(100)))],
        gates=[GateResult(name="numeric", passed=True, observed=0.0, bound=1.0, unit="abs")],
    )


if __name__ == "__main__":
    main(sys.argv[1], *(int(argument) for argument in sys.argv[2:]))
