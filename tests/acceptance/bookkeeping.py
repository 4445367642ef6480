"""What a run costs besides its worker: job file, process, reading, storing. Goal: under 50 ms.

    python tests/acceptance/bookkeeping.py [RUNS]

The worker is `cp` of an answer that was prepared before, as large as a real one, so the times are
upper bounds. Exit code 1 when the goal is missed.
"""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from rich.console import Console

from harness.hardware.ceilings import Ceilings
from harness.hardware.detection import detect
from harness.metrics import METRICS
from harness.run import GateResult, MetricValue, RunRecord, SampleSet
from harness.suite import cases, load
from harness.sweep import Order, run_sweep
from harness.sweep.executor import LocalExecutor
from harness.sweep.interruption import Interruption
from harness.sweep.progress import PlainProgress
from harness.worker.job import Job

GOAL_MS = 50.0
_SUITE = """
suite: bookkeeping
stacks: [mha]
model: tiny
workload: {{kind: generate, batch: [1], prompt_tokens: [8], new_tokens: 4}}
measure: {{rounds: {rounds}, max_seconds: 1}}
"""


class Timed:
    """Times each run from its submission to the next one, which is when it is stored."""

    def __init__(self, interruption: Interruption, answer: Path) -> None:
        copy = ("/bin/sh", "-c", 'exec cp "$0" "$2"', str(answer))
        self._executor = LocalExecutor(interruption, copy)
        self._answer = answer
        self.wall_ms: list[float] = []
        self.cpu_ms: list[float] = []
        self._began: tuple[float, float] | None = None

    def submit(self, job: Job) -> RunRecord:
        """Note the run before, prepare the answer unnoticed, then make the run."""
        self.stop()
        self._answer.write_text(answer(job).model_dump_json())
        self._began = (time.perf_counter(), time.process_time())
        return self._executor.submit(job)

    def stop(self) -> None:
        """End the time of the run before."""
        if self._began is not None:
            self.wall_ms.append((time.perf_counter() - self._began[0]) * 1e3)
            self.cpu_ms.append((time.process_time() - self._began[1]) * 1e3)
        self._began = None


def answer(job: Job) -> RunRecord:
    """A record as large as those of a real run: every metric, 5 x 1,000 samples, 12 gates."""
    return RunRecord(
        case_hash=job.case.hash,
        status="ok",
        round=job.round,
        order_slot=job.order_slot,
        started_at=datetime.now(UTC),
        seconds=1.0,
        metrics=[MetricValue(name=name, value=1234.5, n=1000) for name in METRICS],
        samples=[
            SampleSet(metric=name, unit="ns", values=[1_000_000 + 7919 * i for i in range(1000)])
            for name in list(METRICS)[:5]
        ],
        gates=[
            GateResult(name=f"gate{i}", passed=True, observed=0.1, bound=1.0, unit="")
            for i in range(12)
        ],
    )


def main() -> int:
    """Measure and print."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with TemporaryDirectory(prefix="bookkeeping-") as name:
        folder = Path(name)
        suite_file = folder / "suite.yaml"
        suite_file.write_text(_SUITE.format(rounds=runs))
        suite = load(suite_file)
        made: list[Timed] = []

        def executor(interruption: Interruption) -> Timed:
            made.append(Timed(interruption, folder / "answer.json"))
            return made[0]

        run_sweep(
            Order(suite, "cpu", tuple(cases(suite, "cpu")), ("sweep", "bookkeeping")),
            detect("cpu"),
            url=str(folder / "results.db"),
            progress=PlainProgress(Console(quiet=True)),
            lock=folder / "lock",
            executor=executor,
            limits=lambda device, threads, dtypes: Ceilings(
                bandwidth_bytes_per_s=1e10, flops_per_s=dict.fromkeys(dtypes, 1e11), source="-"
            ),
        )
        made[0].stop()
    for label, times in (("wall", made[0].wall_ms), ("CPU of the parent", made[0].cpu_ms)):
        tenths = quantiles(times, n=10)
        print(
            f"{label}: median {median(times):.1f} ms, 90 % within {tenths[-1]:.1f} ms, "
            f"least {min(times):.1f} ms, over {len(times)} runs"
        )
    good = median(made[0].wall_ms) < GOAL_MS
    print(f"{'good' if good else 'MISSED'}: the goal is {GOAL_MS:g} ms a run, worker included")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
