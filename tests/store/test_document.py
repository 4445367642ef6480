"""Sweeps as one JSON file: everything is in it, and merging it twice adds nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness import cli
from harness.errors import UsageError
from harness.run import RunRecord
from harness.store import SweepStart, document, open_reader, open_store
from harness.suite.case import Case

MakeCase = Callable[..., Case]
MakeRun = Callable[..., RunRecord]
MakeSweep = Callable[..., SweepStart]


@pytest.fixture
def filled(tmp_path: Path, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep) -> str:
    place = str(tmp_path / "filled.db")
    with open_store(place) as store:
        for uid in "12":
            sweep_id = store.begin_sweep(make_sweep(uid=uid * 32, day=int(uid)))
            for batch in (1, 8):
                case = make_case(batch=batch)
                store.save_run(sweep_id, case, make_run(case, tpot=int(uid) + batch))
            store.end_sweep(sweep_id, "complete")
    return place


def test_a_file_gives_back_all_that_was_stored(filled: str, tmp_path: Path) -> None:
    file, other = tmp_path / "published.json", str(tmp_path / "other.db")
    with open_reader(filled) as reader:
        whole = document.of(reader)
    document.write(whole, file)
    with open_store(other) as store:
        document.save(document.read(file), store)
        document.save(document.read(file), store)
    with open_reader(other) as reader:
        assert document.of(reader) == whole
    assert [len(sweep.runs) for sweep in whole.sweeps] == [2, 2]
    assert whole.sweeps[0].runs[0].record.samples
    assert whole.sweeps[0].ended_at is not None


def test_the_commands_write_and_take_it(filled: str, tmp_path: Path) -> None:
    file, other = str(tmp_path / "one.json"), str(tmp_path / "other.db")

    def told(*arguments: str) -> str:
        return CliRunner().invoke(cli.build(), ["db", *arguments]).output

    wrote = told("export", "--db", filled, "--format", "json", "--sweep", "2", "-o", file)
    assert wrote.startswith("wrote 1 sweeps to")
    assert told("merge", file, "--db", other).startswith("added 1 sweeps and 2 runs of")
    assert told("merge", file, "--db", other).startswith("added 0 sweeps and 0 runs of")
    assert told("merge", file, "--db", filled).startswith("added 0 sweeps and 0 runs of")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "holds no sweeps of the harness (the file: "),
        ('{"sweeps": [{}]}', "holds no sweeps of the harness (sweeps.0.start: Field required)"),
        ('{"format_version": 9, "sweeps": []}', "has format 9, newer than the 1 of this harness"),
    ],
)
def test_what_is_no_such_file_is_refused_in_a_sentence(
    text: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "strange.json"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        document.read(file)
    assert message in str(caught.value)


def test_a_file_that_is_not_there_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        document.read(tmp_path / "none.json")
