"""The self-test itself: a sample of its mutation test, and the command."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from harness.cli import selftest
from harness.errors import HarnessError
from harness.paths import root
from harness.selftest.judge import Verdict
from harness.selftest.run import FAKES
from harness.selftest.trials import TRIALS, Trial


@pytest.fixture(scope="module")
def mutants() -> ModuleType:
    path = Path(__file__).parents[1] / "acceptance" / "selftest_mutants.py"
    spec = spec_from_file_location("selftest_mutants", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["selftest_mutants"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_every_mutant_finds_its_place(mutants: ModuleType) -> None:
    assert [m for mutated in mutants.MUTANTS for m in mutants.missing(mutated, root())] == []


def test_every_trial_has_a_mutant_that_turns_it_red(mutants: ModuleType) -> None:
    red = {name for mutated in mutants.MUTANTS for name in mutated.red}
    assert red == {trial.name for trial in TRIALS} - {"honest"}


def test_every_fake_is_tried() -> None:
    fakes = {path.parent.name for path in FAKES.glob("*/__init__.py")}
    assert fakes == {part for t in TRIALS for part in t.stack.split("+")} - {"mha"}


def test_a_disabled_check_shows_in_the_trials_that_depend_on_it(mutants: ModuleType) -> None:
    """Through real sweeps of a copy: counting tokens is off, holding logits to theirs is not."""
    [mutated] = [m for m in mutants.MUTANTS if m.check == "tokens are counted"]
    found = mutants.attempt(mutated, ["honest", "early_end", "wrong_logits"])
    assert found == {"early_end": ["the status is ok and not gate_failed"]}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command, with trials that come out as the test wants."""

    def invoke(*arguments: str, faults: dict[str, str] | None = None, stop: int = 99) -> Result:
        def made_up(trials: list[Trial], *_: Any, **__: Any) -> Iterator[Verdict]:
            for trial in trials[:stop]:
                fault = (faults or {}).get(trial.name)
                yield Verdict(trial, trial.status, () if fault is None else (fault,))

        monkeypatch.setattr("harness.selftest.run.selftest", made_up)
        app = typer.Typer()
        app.callback()(lambda: None)
        selftest.register(app)
        return CliRunner().invoke(app, ["selftest", *arguments])

    return invoke


def test_truth_is_exit_code_0(run: Callable[..., Result]) -> None:
    result = run()
    assert result.exit_code == 0
    assert f"{len(TRIALS)} trials: the instrument tells the truth." in result.output


def test_a_lie_is_exit_code_1(run: Callable[..., Result]) -> None:
    result = run("--only", "*_output", faults={"nan_output": "the status is ok"})
    assert result.exit_code == 1
    [line] = [line for line in result.output.splitlines() if line.endswith("LIE")]
    assert line.startswith("nan_output")
    assert "nan_output: the status is ok" in result.output
    assert "the instrument lies in 1." in result.output


def test_stopped_is_told(run: Callable[..., Result]) -> None:
    result = run(stop=3)
    assert result.exit_code == 130
    assert f"stopped after 3 of {len(TRIALS)} trials" in result.output


def test_unknown_trial_gets_the_closest(run: Callable[..., Result]) -> None:
    error = run("--only", "nan_outputs").exception
    assert isinstance(error, HarnessError)
    assert "did you mean 'nan_output'" in str(error)
