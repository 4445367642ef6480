"""`harness report` on a small made database."""

from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from harness.cli import build
from harness.errors import HarnessError, UsageError
from harness.store import open_store


@pytest.fixture(scope="module")
def database(example_sweep: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "made.db"
    with open_store(str(path)) as store:
        sweep_id = store.begin_sweep(example_sweep.start())
        for run in example_sweep.runs():
            store.save_run(sweep_id, run.case, run.record)
        store.end_sweep(sweep_id, "complete")
    return path


def _run(*arguments: str) -> str:
    result = CliRunner().invoke(build(), ["report", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_the_last_sweep_in_the_terminal(database: Path) -> None:
    text = _run("--db", str(database))
    assert "decode, sweep 1" in text
    assert "1.75x [1.73, 1.76]" in text


@pytest.mark.parametrize(
    ("name", "begins"),
    [("r.html", "<!doctype html>"), ("r.md", "# decode, sweep 1"), ("r.txt", "decode, sweep 1")],
)
def test_the_ending_of_the_file_says_the_format(
    name: str, begins: str, database: Path, tmp_path: Path
) -> None:
    text = _run("last", "--db", str(database), "--output", str(tmp_path / name))
    assert text == f"wrote {tmp_path / name}\n"
    assert (tmp_path / name).read_text().startswith(begins)


def test_a_format_can_be_said(database: Path) -> None:
    text = _run("1", "--db", str(database), "--format", "markdown", "--baseline", "gqa")
    assert "vs gqa" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["99"], "there is no sweep 99"),
        (["last", "--baseline", "mhaa"], "did you mean 'mha'"),
        (["last", "--metric", "speed"], "unknown metric 'speed'"),
        (["last", "--output", "report.pdf"], "does not say which format"),
        (["last", "--output", "/nowhere/at/all.md"], "cannot write /nowhere/at/all.md"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], sentence: str, database: Path) -> None:
    with pytest.raises(UsageError, match=sentence):
        _run(*arguments, "--db", str(database))


def test_a_missing_database_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(HarnessError):
        _run("--db", str(tmp_path / "none.db"))
