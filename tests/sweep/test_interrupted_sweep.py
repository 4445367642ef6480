"""A real sweep process, with a worker that only sleeps, stopped by signals and by a lock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from harness.store import open_reader
from harness.sweep.lock import DeviceLock

_TRIVIAL = Path(__file__).parents[1] / "acceptance" / "trivial.py"


def start(db: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(_TRIVIAL), str(db), "--batches", "2", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_lines(process: subprocess.Popen[str], file: Path, count: int) -> None:
    """Wait until a log has that many lines; fail with what the sweep said if it ends before."""
    for _ in range(12_000):
        if file.exists() and len(file.read_text().splitlines()) >= count:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    raise AssertionError(f"{file.name} does not get {count} lines")


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_a_sweep_cleanly(tmp_path: Path, signum: int, code: int) -> None:
    db = tmp_path / "results.db"
    with start(db, "--sleep", "0.5") as process:
        wait_for_lines(process, Path(f"{db}.stored"), 1)
        wait_for_lines(process, Path(f"{db}.started"), 2)
        [worker] = psutil.Process(process.pid).children()
        process.send_signal(signum)
        told, complaints = process.communicate()
    assert process.returncode == code
    assert not worker.is_running()
    # What was finished is stored and told; nothing complains.
    assert "'ok':" in told
    assert "Traceback" not in complaints
    with open_reader(str(db)) as reader:
        [sweep] = reader.sweeps()
        runs = reader.runs(sweep.id)
    assert sweep.status == "interrupted"
    assert 1 <= len(runs) < 12
    assert {run.record.status for run in runs} == {"ok"}


def test_interrupted_sweep_is_completed_by_resume(tmp_path: Path) -> None:
    db = tmp_path / "results.db"
    with start(db) as process:
        wait_for_lines(process, Path(f"{db}.stored"), 2)
        process.send_signal(signal.SIGINT)
        process.communicate()
    with start(db, "--resume") as process:
        told, complaints = process.communicate()
    if "the code has changed" in complaints:
        pytest.skip("somebody edits the checkout while the tests run")
    assert (process.returncode, told.strip()) == (0, "{'ok': 12}")
    with open_reader(str(db)) as reader:
        [sweep] = reader.sweeps()
        runs = reader.runs(sweep.id)
    assert sweep.status == "complete"
    assert sorted(run.record.order_slot for run in runs) == list(range(12))


def test_second_sweep_is_refused_while_one_measures(tmp_path: Path) -> None:
    db = tmp_path / "results.db"
    with DeviceLock(Path(f"{db}.lock")), start(db) as process:
        _, complaints = process.communicate()
    assert process.returncode == 4
    [sentence] = complaints.splitlines()
    assert f"process {os.getpid()}" in sentence
    assert "is measuring on this machine" in sentence
    assert not db.exists()
