"""`harness sweep` and `harness rerun` with the real worker, and one sentence for every mistake."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from harness.cli import generate, rerun, sweep
from harness.errors import HarnessError
from harness.hardware.identity import HardwareRow
from harness.store import open_reader
from harness.sweep.lock import DeviceLock

_SUITE = """
suite: small
about: A test's.
stacks: [mha, mha+failing]
model: tiny
workload: {kind: generate, batch: [2], prompt_tokens: [8], new_tokens: 4}
measure: {rounds: 1, min_samples: 2, max_seconds: 0.2, precision: 0.5}
"""
# Its engine raises when it is built; the plan is good.
_FAILING = """
from dataclasses import replace
from harness.technique import Exactness, Factory, Slot, Technique, TechniqueOptions

def apply(plan, options):
    return plan.add(scheduler=Factory("harness.techniques.failing:broken"))

def broken(plan):
    raise RuntimeError("this technique always fails")

TECHNIQUE = Technique(
    name="failing", title="Fails", slot=Slot.SCHEDULING, compared_with="static",
    exactness=lambda options: Exactness.IDENTICAL, lecture="", papers=(),
    options=TechniqueOptions, apply=apply, cost=lambda cost, plan, options, batch: cost,
    reference="harness.errors:unknown",
)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A suite file, a plugin that fails, and what a real sweep of both left."""
    made = tmp_path_factory.mktemp("sweep")
    (made / "small.yaml").write_text(_SUITE)
    (made / "plugins" / "failing").mkdir(parents=True)
    (made / "plugins" / "failing" / "__init__.py").write_text(_FAILING)
    return made


@pytest.fixture(scope="module")
def swept(folder: Path) -> subprocess.CompletedProcess[str]:
    """The command, as a user runs it, in another folder than the suite's."""
    command = [
        sys.executable, "-m", "harness", "sweep", str(folder / "small.yaml"),
        "--db", str(folder / "results.db"), "--plugin-path", "plugins", "--seed", "7",
    ]  # fmt: skip
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_sweep_stores_and_shows_good_and_failed_cases(
    folder: Path, swept: subprocess.CompletedProcess[str]
) -> None:
    """A technique that raises is a failed row without a number, and exit code 1 (sglang#4533)."""
    assert swept.returncode == 1, swept.stderr
    with open_reader(str(folder / "results.db")) as reader:
        stored = reader.sweep("last")
        runs = reader.runs(stored.id)
    assert (stored.status, stored.seed) == ("complete", 7)
    found = sorted((r.case.label, r.record.round, r.record.status) for r in runs)
    assert found == [("mha", 0, "ok"), ("mha+failing", 0, "error")]
    [failed] = [r.record for r in runs if r.record.status == "error"]
    assert failed.reason == "RuntimeError: this technique always fails"
    assert "in broken" in failed.stderr_tail
    assert failed.metrics == []
    for run in runs:
        assert run.record.stderr_tail == "" or run.record is failed or run.record.status == "error"


def test_output_tells_both(swept: subprocess.CompletedProcess[str], folder: Path) -> None:
    assert "Failed" in swept.stdout
    assert "this technique always fails" in swept.stdout
    assert f"is in {folder / 'results.db'}: 1 error, 1 ok." in swept.stdout
    # Not a terminal: plain lines.
    assert "[1/2] " in swept.stderr
    assert "\x1b" not in swept.stderr + swept.stdout


def test_complete_sweep_has_nothing_to_resume(
    folder: Path, swept: subprocess.CompletedProcess[str], run: Callable[..., Result]
) -> None:
    args = ("--db", str(folder / "results.db"), "--plugin-path", str(folder / "plugins"))
    error = sentence(run("sweep", str(folder / "small.yaml"), *args, "--resume"), 2)
    assert error.startswith("nothing to resume: sweep 1")


def test_rerun_repeats_one_run(
    folder: Path, swept: subprocess.CompletedProcess[str], run: Callable[..., Result]
) -> None:
    db = str(folder / "results.db")
    with open_reader(db) as reader:
        good = next(r.id for r in reader.runs(1) if r.record.status == "ok")
    result = run("rerun", str(good), "--db", db)
    assert result.exit_code == 0, result.output
    rows = {line.split()[0]: line.split()[1:] for line in result.output.splitlines() if line}
    assert rows["status"][:2] == ["ok", "ok"]
    assert rows["state_bytes"][-1] == "1.000"
    with open_reader(db) as reader:
        assert len(reader.sweeps()) == 1  # nothing is stored unless asked for


def test_rerun_of_a_failed_run_fails_again(
    folder: Path, swept: subprocess.CompletedProcess[str], run: Callable[..., Result]
) -> None:
    db = str(folder / "results.db")
    with open_reader(db) as reader:
        bad = next(r.id for r in reader.runs(1) if r.record.status == "error")
    result = run("rerun", str(bad), "--db", db, "--store")
    assert result.exit_code == 1
    assert "RuntimeError: this technique always fails" in result.output
    with open_reader(db) as reader:
        stored = reader.sweep("last")
        [again] = reader.runs(stored.id)
    assert stored.argv[:2] == ("rerun", str(bad))
    assert again.record.status == "error"


@pytest.fixture
def run() -> Callable[..., Result]:
    """Runs a command of this part alone, so that a broken neighbour cannot fail these tests."""
    app = typer.Typer()
    for command in (sweep, rerun, generate):
        command.register(app)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments))

    return invoke


def sentence(result: Result, exit_code: int) -> str:
    """The message of a refused command: one line, of that exit code."""
    assert isinstance(result.exception, HarnessError), result.output
    assert result.exception.exit_code == exit_code
    text = str(result.exception)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["missing.yaml"], 2, "unknown suite file 'missing.yaml'"),
        (["SUITE", "--hardware", "h100"], 2, "unknown hardware 'h100'; did you mean 'h100-pcie'?"),
        (["SUITE", "--hardware", "local,b201"], 2, "unknown hardware 'b201'; did you mean 'b200'"),
        (["SUITE", "--budget", "soon"], 2, "a duration is a number and s, m or h"),
        (["SUITE", "--seed", "2147483648"], 2, "is too large"),
        (["SUITE", "--set", "workload.batch"], 2, "write it as key=value"),
        (["SUITE", "--only", "gqa*"], 2, "unknown --only pattern 'gqa*'"),
        (["SUITE", "--db", "/dev/null/x.db"], 2, "/dev/null"),
        (["SUITE", "--plugin-path", "/nowhere"], 2, "plugin path '/nowhere' is not a folder"),
        (["SUITE", "--resume", "--db", "NEW"], 2, "nothing to resume: no sweep of suite 'small'"),
    ],
)
def test_mistakes_are_one_sentence(
    folder: Path,
    tmp_path: Path,
    run: Callable[..., Result],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    names = {"SUITE": str(folder / "small.yaml"), "NEW": str(tmp_path / "new.db")}
    given = ["sweep", *(names.get(argument, argument) for argument in arguments)]
    if "--plugin-path" not in given:
        given += ["--plugin-path", str(folder / "plugins")]
    if "--db" not in given:
        given += ["--db", str(tmp_path / "results.db")]
    assert words in sentence(run(*given), code)


def test_no_gpu_is_infrastructure(folder: Path, run: Callable[..., Result], no_gpu: None) -> None:
    assert "no GPU was found" in sentence(run("sweep", "quick", "--profile", "cuda"), 4)


@pytest.fixture
def no_gpu() -> None:
    """Skips where there is one."""
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")


def test_locked_machine_is_infrastructure(
    folder: Path, tmp_path: Path, run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lock"
    monkeypatch.setenv("HARNESS_LOCK", str(file))
    plugins = ("--plugin-path", str(folder / "plugins"))
    with DeviceLock(file):
        result = run("sweep", str(folder / "small.yaml"), *plugins, "--db", str(tmp_path / "x.db"))
    assert "is measuring on this machine" in sentence(result, 4)


def test_dry_run_prints_the_plan_and_leaves_nothing(
    folder: Path, tmp_path: Path, run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unmeasured(hardware: HardwareRow, *_: Any, **__: Any) -> HardwareRow:
        return hardware

    monkeypatch.setattr("harness.sweep.session.calibrated", unmeasured)
    db = tmp_path / "results.db"
    plugins = ("--plugin-path", str(folder / "plugins"))
    suite = str(folder / "small.yaml")
    result = run("sweep", suite, "--dry-run", *plugins, "--db", str(db))
    assert result.exit_code == 0, result.output
    assert "mha+failing B2 P8 N4" in result.output
    assert "2 of 2 cases can run, in 1 rounds: 2 runs" in result.output
    assert not db.exists()


def test_unknown_run_is_told(
    folder: Path, swept: subprocess.CompletedProcess[str], run: Callable[..., Result]
) -> None:
    result = run("rerun", "999", "--db", str(folder / "results.db"))
    assert "there is no run 999" in sentence(result, 2)
