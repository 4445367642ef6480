"""`harness db`: what it prints, what it leaves, and one sentence for every mistake."""

from __future__ import annotations

import csv
import io
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from harness import cli
from harness.cli import db
from harness.run import MetricValue, RunRecord, SampleSet
from harness.store import EnvironmentRow, HardwareRow, SweepStart, open_reader, open_store, schema
from harness.store.store import Store
from harness.suite.case import Case, Choice, StackSpec
from harness.suite.points import GeneratePoint


@pytest.fixture
def app() -> typer.Typer:
    """Only this command, so that a broken neighbour cannot fail these tests."""
    made = typer.Typer()
    made.callback()(lambda: None)
    db.register(made)
    return made


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A database with two sweeps of one run each."""
    path = tmp_path / "filled.db"
    with open_store(str(path)) as store:
        for day in range(2):
            _add_sweep(store, day)
    return path


def _add_sweep(store: Store, day: int) -> None:
    started = datetime(2026, 3, 1 + day, 22, 0, tzinfo=UTC)
    case = Case(
        stack=StackSpec(
            label="mha",
            architecture=(Choice(technique="mha"),),
            weights=Choice(technique="dense"),
            cache=Choice(technique="contiguous"),
            decoding=Choice(technique="autoregressive"),
            scheduling=Choice(technique="static"),
        ),
        model="zoo/small-mha",
        checkpoint_hash="c" * 64,
        workload=GeneratePoint(batch=8, prompt_tokens=128, new_tokens=64),
    )
    sweep_id = store.begin_sweep(
        SweepStart(
            uid=str(day) * 32,
            suite="decode",
            suite_hash="a" * 64,
            suite_text="",
            argv=("sweep", "decode"),
            seed=1,
            started_at=started,
            hardware=HardwareRow(
                kind="cpu", name="Xeon", arch="x86_64", memory_bytes=2**37, count=2, cpu="Xeon"
            ),
            environment=EnvironmentRow(python="3.11", os="Linux"),
        )
    )
    record = RunRecord(
        case_hash=case.hash,
        status="ok",
        round=0,
        order_slot=0,
        started_at=started + timedelta(seconds=1),
        seconds=1.0,
        metrics=[MetricValue(name="tpot", value=2.5e6, n=20)],
        samples=[SampleSet(metric="tpot", unit="ns", values=[2_500_000] * 20)],
    )
    store.save_run(sweep_id, case, record)
    store.end_sweep(sweep_id, "complete")


def _run(app: typer.Typer, *arguments: str, **environment: str) -> str:
    result = CliRunner().invoke(app, ["db", *arguments], env=environment, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_upgrade_creates_once(app: typer.Typer, tmp_path: Path) -> None:
    path = str(tmp_path / "new.db")
    assert _run(app, "upgrade", "--db", path) == f"created {path} with schema {schema.HEAD}\n"
    assert _run(app, "upgrade", "--db", path) == f"{path} has schema {schema.HEAD} already\n"


def test_the_database_comes_from_the_option_or_the_environment(
    app: typer.Typer, tmp_path: Path, filled: Path
) -> None:
    by_environment = _run(app, "info", HARNESS_DB=f"sqlite:///{filled}")
    assert by_environment == _run(app, "info", "--db", str(filled), HARNESS_DB="sqlite:///nowhere")


def test_info(app: typer.Typer, filled: Path) -> None:
    output = _run(app, "info", "--db", str(filled))
    assert f"database  {filled}\nschema    {schema.HEAD}\nsize " in output
    assert "1 case," in output
    assert "2 run," in output
    (line,) = [line for line in output.splitlines() if "2026-03-02" in line]
    assert " ".join(line.split()) == (
        "2 2026-03-02 22:00 UTC decode complete 1 runs Xeon, no revision"
    )


def test_info_shows_the_newest_sweeps(
    app: typer.Typer, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db, "SHOWN_SWEEPS", 1)
    output = _run(app, "info", "--db", str(filled))
    assert "... 1 older ones" in output
    assert "2026-03-01" not in output


def test_export_to_the_terminal_and_to_a_file(
    app: typer.Typer, filled: Path, tmp_path: Path
) -> None:
    rows = list(csv.DictReader(io.StringIO(_run(app, "export", "--db", str(filled)))))
    assert [(row["sweep"], row["metric"], row["value"]) for row in rows] == [
        ("1", "tpot", "2500000.0"),
        ("2", "tpot", "2500000.0"),
    ]
    file = tmp_path / "rows.jsonl"
    said = _run(
        app, "export", "--db", str(filled), "--format", "jsonl", "--sweep", "last", "-o", str(file)
    )
    assert said == f"wrote 1 rows to {file}\n"
    (line,) = file.read_text().splitlines()
    assert json.loads(line)["sweep"] == 2


def test_merge_twice(app: typer.Typer, filled: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "target.db")
    first = _run(app, "merge", str(filled), "--db", target)
    assert first == f"added 2 sweeps, 2 runs and 0 alerts of {filled} to {target}\n"
    assert "added 0 sweeps, 0 runs and 0 alerts" in _run(app, "merge", str(filled), "--db", target)


def test_gc_says_what_it_would_do_and_then_does_it(app: typer.Typer, filled: Path) -> None:
    arguments = ("gc", "--db", str(filled), "--keep", "1")
    dry = _run(app, *arguments, "--dry-run")
    assert dry.startswith("would drop 1 sets of samples (")
    done = _run(app, *arguments)
    assert done.startswith(dry.rstrip().replace("would drop", "dropped"))
    assert "the file went from" in done
    with open_reader(str(filled)) as reader:
        assert [len(reader.runs(n)[0].record.samples) for n in (1, 2)] == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("info --db {tmp}/none.db", "there is no database {tmp}/none.db; 'harness sweep SUITE'"),
        ("gc --db {tmp}/none.db", "there is no database {tmp}/none.db"),
        ("export --db {tmp}/none.db", "there is no database {tmp}/none.db"),
        ("upgrade --db {tmp}/no/x.db", "there is no folder {tmp}/no; make it"),
        ("merge {tmp}/none.db --db {tmp}/new.db", "there is no database {tmp}/none.db"),
        ("merge {filled} --db {filled}", "{filled} cannot be merged into itself"),
        ("export --db {filled} --sweep 9", "there is no sweep 9 in {filled}; the last are: 1, 2"),
        ("export --db {filled} -o {tmp}/no/x.csv", "x.csv cannot be written: No such file or"),
        ("info --db {text}", "{text} is not a database"),
    ],
)
def test_a_mistake_ends_in_one_sentence(
    app: typer.Typer,
    tmp_path: Path,
    filled: Path,
    arguments: str,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = tmp_path / "text.db"
    text.write_text("words " * 1000)
    names = {"tmp": tmp_path, "filled": filled, "text": text}
    monkeypatch.setattr(cli, "build", lambda: app)
    monkeypatch.setattr(sys, "argv", ["harness", "db", *arguments.format(**names).split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith("harness: ")
    assert sentence.format(**names) in said.err
    assert not (tmp_path / "new.db").exists()
