"""How long `harness regress` takes over 2,000 series of 200 nights.

    python tests/acceptance/regress_speed.py [FILE]

Makes a database of that size, in a temporary folder or as the file that is named, and runs the
command on it twice. Ends with 1 where it takes more than 20 s, or does not end well.
"""

from __future__ import annotations

import argparse
import math
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sqlalchemy import insert, select

from harness.hardware.identity import EnvironmentRow, HardwareRow, RevisionRow
from harness.run import MetricValue, RunRecord
from harness.store import SweepStart, models, open_store
from harness.suite.case import Case, Choice, StackSpec
from harness.suite.points import GeneratePoint

CASES, METRICS, NIGHTS = 500, ("tpot", "throughput", "ttft", "e2e"), 200
MOST_S = 20.0


def main() -> int:
    """Make, run, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, nargs="?")
    named: Path | None = parser.parse_args().file
    slow = False
    with TemporaryDirectory() as folder:
        path = named or Path(folder) / "nights.db"
        if not path.exists():
            _fill(path)
        for turn in ("first", "second"):
            start, before = time.monotonic(), _cpu()
            command = [sys.executable, "-m", "harness", "regress", "--db", str(path), "--dry-run"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            taken = time.monotonic() - start
            slow |= taken > MOST_S or done.returncode not in (0, 1)
            print(
                f"{turn}: {taken:.1f} s, {_cpu() - before:.1f} s of processor "
                f"time, exit {done.returncode}: {done.stdout.strip().splitlines()[-1:]}"
            )
            print(done.stderr[-2000:], end="")
    return int(slow)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _fill(path: Path) -> None:
    random = np.random.default_rng(1)
    first = datetime.now(UTC) - timedelta(days=NIGHTS - 1, hours=8)
    with open_store(str(path)) as store:
        for night in range(NIGHTS):
            at = first + timedelta(days=night)
            revision = RevisionRow(repo="r", commit=f"{night:040x}", branch="main", committed_at=at)
            start = SweepStart(
                uid=f"{night:032x}", suite="s", suite_hash="h", suite_text="", argv=(), seed=1,
                started_at=at, revision=revision,
                hardware=HardwareRow(kind="cuda", name="GPU", arch="sm_90", memory_bytes=1,
                                     count=1, cpu="CPU"),
                environment=EnvironmentRow(python="3.11", os="Linux"),
            )  # fmt: skip
            store.end_sweep(store.begin_sweep(start), "complete")
        for number in range(CASES):
            case = Case(
                stack=StackSpec(
                    label="mha", architecture=(Choice(technique="mha"),),
                    weights=Choice(technique="dense"), cache=Choice(technique="contiguous"),
                    decoding=Choice(technique="autoregressive"),
                    scheduling=Choice(technique="static"),
                ),
                model="tiny", checkpoint_hash=None,
                workload=GeneratePoint(batch=number + 1, prompt_tokens=8, new_tokens=8),
            )  # fmt: skip
            metrics = [MetricValue(name=m, value=1e6, null_reason=None, n=9) for m in METRICS]
            record = RunRecord(case_hash=case.hash, status="ok", round=0, order_slot=0,
                               started_at=first, seconds=1.0, metrics=metrics)  # fmt: skip
            store.save_run(1, case, record)
        with store.engine.begin() as connection:
            runs = connection.execute(select(models.Run.__table__)).mappings().all()
            rows = connection.execute(select(models.Metric.__table__)).mappings().all()
            scale = 0.005 * 10 ** random.random(len(rows))  # each series its own noise
            for n in range(1, NIGHTS):
                connection.execute(
                    insert(models.Run),
                    [{**r, "id": r["id"] + n * len(runs), "sweep_id": n + 1} for r in runs],
                )
                noise = scale * random.standard_normal(len(rows))
                slow = [1.05 if i % 50 == 0 and n >= 150 else 1.0 for i in range(len(rows))]
                connection.execute(
                    insert(models.Metric),
                    [
                        {**r, "id": r["id"] + n * len(rows), "run_id": r["run_id"] + n * len(runs),
                         "value": 1e6 * math.exp(e) * s}
                        for r, e, s in zip(rows, noise, slow, strict=True)
                    ],
                )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
