"""A few rounds of tests/acceptance/kill_resume.py, and what it must notice."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = Path(__file__).parents[1] / "acceptance" / "kill_resume.py"
    spec = spec_from_file_location("kill_resume", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tortured(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database after three kills, in which nothing was found wrong."""
    db = tmp_path_factory.mktemp("tortured") / "results.db"
    assert script.torture(db, 3, random.Random(5), batches=3) == []
    return db


def test_sweeps_survive_kills(script: ModuleType, tortured: Path) -> None:
    assert len(script.stored(tortured)) > 0
    with closing(sqlite3.connect(tortured)) as connection:
        statuses = connection.execute("SELECT status FROM sweep ORDER BY id").fetchall()
    assert statuses[-1] == ("complete",)


def test_a_lost_run_is_noticed(script: ModuleType, tortured: Path, tmp_path: Path) -> None:
    copy = tmp_path / "results.db"
    for suffix in ("", ".stored", ".started"):
        Path(f"{copy}{suffix}").write_bytes(Path(f"{tortured}{suffix}").read_bytes())
    before = set(script.stored(copy))
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("DELETE FROM run WHERE id = (SELECT max(id) FROM run)")
        connection.commit()
    faults = list(script.check(copy, before, [], False))
    assert any("stored, then lost" in fault for fault in faults)
    assert any("said to be stored, and not there" in fault for fault in faults)


def test_a_run_made_twice_is_noticed(script: ModuleType, tortured: Path) -> None:
    before = set(script.stored(tortured))
    last = max(int(row[0]) for row in before)
    again = next(" ".join(row[1:4]) for row in before if int(row[0]) == last)
    faults = list(script.check(tortured, before, [again], True))
    assert faults == [f"stored and made again: {again} of sweep {last}"]
