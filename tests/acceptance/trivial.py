"""A sweep whose worker does nothing but answer: everything around a run is real, the run is not.

    python tests/acceptance/trivial.py DB [--batches N] [--rounds N] [--sleep S] [--resume]

Beside the database it leaves DB.started, a line for each run that a worker began, and DB.stored,
a line for each run that the sweep said was stored. Other scripts and tests build on this.
"""

import argparse
import json
import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

# Started without site-packages, which makes a worker of 20 ms.
WORKER = (sys.executable, "-I", "-S", __file__, "worker")
_SUITE = """
suite: trivial
stacks: [mha, gqa]
model: tiny
workload: {{kind: generate, batch: [{batches}], prompt_tokens: [8], new_tokens: 4}}
measure: {{rounds: {rounds}, max_seconds: 1}}
"""


def work(job_file: str, run_file: str) -> None:
    """Note the start, sleep, answer."""
    began = datetime.now(UTC)
    job = json.loads(Path(job_file).read_text())
    name = f"{job['case']['stack']['label']} {job['case']['workload']['batch']} {job['round']}"
    if log := os.environ.get("TRIVIAL_LOG"):
        append(Path(f"{log}.started"), name)
    time.sleep(float(os.environ.get("TRIVIAL_SLEEP", "0")))
    run = {
        "case_hash": os.environ["TRIVIAL_HASHES"].split(",")[_place(job)],
        "status": "ok",
        "round": job["round"],
        "order_slot": job["order_slot"],
        "attempt": job["attempt"],
        "started_at": began.isoformat(),
        "seconds": 0.01,
        "metrics": [{"name": "tpot", "value": 1e6}, {"name": "ttft", "value": 2e6}],
        "samples": [{"metric": "step_gap", "unit": "ns", "values": list(range(300))}],
        "gates": [],
    }
    temporary = Path(f"{run_file}.tmp")
    temporary.write_text(json.dumps(run))
    temporary.replace(run_file)


def _place(job: dict[str, Any]) -> int:
    """Where a job's case stands in the suite: stacks vary slowest, then batch."""
    batches = int(os.environ["TRIVIAL_BATCHES"])
    stack = ["mha", "gqa"].index(job["case"]["stack"]["label"])
    batch: int = job["case"]["workload"]["batch"]
    return stack * batches + batch - 1


def append(file: Path, line: str) -> None:
    """Add a line in one write, so that a kill leaves all of it or nothing."""
    with file.open("a") as opened:
        opened.write(f"{line}\n")


def main() -> int:
    """Run the sweep; its exit code."""
    # Whatever it was started from: a job in the background of a script ignores SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("db", type=Path)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sleep", type=float, default=0.0)
    parser.add_argument("--resume", action="store_true")
    asked = parser.parse_args()
    try:
        return sweep(asked)
    except Exception as error:
        from harness.errors import HarnessError

        if not isinstance(error, HarnessError):
            raise
        print(f"harness: {error}", file=sys.stderr)
        return error.exit_code


def sweep(asked: argparse.Namespace) -> int:
    """Plan and run what was asked for."""
    from rich.console import Console

    from harness.hardware.ceilings import Ceilings
    from harness.hardware.detection import detect
    from harness.run import RunRecord
    from harness.suite import cases, load
    from harness.suite.case import Case
    from harness.sweep import Order, run_sweep
    from harness.sweep.executor import LocalExecutor
    from harness.sweep.progress import PlainProgress

    class Noting(PlainProgress):
        """Also notes each stored run in DB.stored."""

        def finish(self, case: Case, record: RunRecord, took_s: float, left_s: float) -> None:
            work = case.generated
            name = f"{case.label} {work.batch} {record.round}"
            append(Path(f"{asked.db}.stored"), f"{name} {record.started_at.isoformat()}")
            super().finish(case, record, took_s, left_s)

        def __exit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            trace: TracebackType | None,
        ) -> None:
            return

    suite_file = Path(f"{asked.db}.yaml")
    batches = ", ".join(str(n) for n in range(1, asked.batches + 1))
    suite_file.write_text(_SUITE.format(batches=batches, rounds=asked.rounds))
    suite = load(suite_file)
    planned = cases(suite, "cpu")
    os.environ |= {
        "TRIVIAL_LOG": str(asked.db),
        "TRIVIAL_SLEEP": str(asked.sleep),
        "TRIVIAL_BATCHES": str(asked.batches),
        "TRIVIAL_HASHES": ",".join(entry.case.hash for entry in planned),
    }
    order = Order(suite, "cpu", tuple(planned), ("sweep", "trivial"), resume=asked.resume)
    outcome = run_sweep(
        order,
        detect("cpu"),
        url=str(asked.db),
        progress=Noting(Console(stderr=True)),
        lock=Path(f"{asked.db}.lock"),
        executor=lambda interruption: LocalExecutor(interruption, WORKER),
        limits=lambda device, threads, dtypes: Ceilings(
            bandwidth_bytes_per_s=1e10, flops_per_s=dict.fromkeys(dtypes, 1e11), source="made up"
        ),
    )
    print(dict(outcome.statuses))
    return outcome.exit_code


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        work(*sys.argv[2:])
    else:
        sys.exit(main())
