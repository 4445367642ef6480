"""Many writers at once, and writers killed at any moment."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

from harness.store import open_reader
from harness.store.rows import StoredRun

WRITERS = Path(__file__).parent / "writers.py"


def _write(url: str, processes: int, runs: int, kills: int) -> set[tuple[int, int]]:
    """(process, run) of every run whose saving was acknowledged."""
    command = [sys.executable, str(WRITERS), url, str(processes), str(runs), str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = [line.split() for line in done.stdout.splitlines()]
    return {(int(process), int(run)) for process, run in lines}


def _stored(url: str) -> dict[tuple[int, int], StoredRun]:
    with open_reader(url) as reader:
        (sweep,) = reader.sweeps()
        return {
            (run.case.generated.batch - 1, run.record.round): run for run in reader.runs(sweep.id)
        }


def test_four_processes_write_one_fresh_database(url: str) -> None:
    acknowledged = _write(url, processes=4, runs=25, kills=0)
    assert acknowledged == {(process, run) for process in range(4) for run in range(25)}
    assert set(_stored(url)) == acknowledged


def test_killed_writers_lose_no_acknowledged_run(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    acknowledged = _write(str(path), processes=3, runs=0, kills=5)
    plain = sqlite3.connect(path)
    assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert plain.execute("PRAGMA foreign_key_check").fetchall() == []
    plain.close()
    stored = _stored(str(path))
    assert acknowledged, "no writer lived long enough to write"
    assert acknowledged <= set(stored)
    # One transaction a run: what is there is whole.
    for run in stored.values():
        record = run.record
        assert (len(record.metrics), len(record.samples), len(record.gates)) == (2, 1, 1)
        assert record.samples[0].values == list(range(100))
