"""`harness new technique`: every skeleton is a technique that passes its gates as it stands."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness import cli, paths, registry
from harness.errors import HarnessError
from harness.model.source import find
from harness.stack import completed, parse
from harness.suite.case import Case, GateSettings, MeasureSettings
from harness.suite.points import GeneratePoint
from harness.technique import BASELINES, Slot
from harness.worker.job import Job

MakePlugin = Callable[..., Path]

# The shortest and the longest name: lines must fit, and imports be sorted, with both.
NAMES = {"short": "a", "long": "z" * 24}


def new(*arguments: str) -> Result:
    return CliRunner().invoke(cli.build(), ["new", "technique", *arguments])


@pytest.mark.parametrize("slot", Slot)
def test_a_skeleton_passes_its_gates(tmp_path: Path, make_plugin: MakePlugin, slot: Slot) -> None:
    """`make_plugin` is here to forget what was imported."""
    from harness.worker.execute import execute

    name = f"my_{slot}"
    result = new(name, "--slot", slot, "--into", str(tmp_path), "--title", "My own")
    assert result.exit_code == 0, result.output
    technique = registry.get(name, [tmp_path])
    assert (technique.slot, technique.title) == (slot, "My own")
    assert technique.compared_with == BASELINES[slot]
    source = find("tiny", ("mha",))
    job = Job(
        case=Case(
            stack=completed(parse(name), source),
            model=source.name,
            checkpoint_hash=source.checkpoint_hash,
            workload=GeneratePoint(batch=2, prompt_tokens=12, new_tokens=6),
        ),
        measure=MeasureSettings(),
        gate=GateSettings(),
        seed=1,
        round=0,
        order_slot=0,
        plugin_paths=(str(tmp_path),),
    )
    record = execute(job, timed=False)
    assert (record.status, record.reason) == ("ok", None)
    assert {gate.name.split("_")[0] for gate in record.gates} >= {"numeric", "regret"}


def test_skeletons_keep_the_house_style(tmp_path: Path) -> None:
    title = "A title of sixty characters, which is really the longest one"
    for slot in Slot:
        for name in NAMES.values():
            into = str(tmp_path / slot)
            assert new(name, "--slot", slot, "--into", into, "--title", title).exit_code == 0
    settings = ["--config", str(paths.root() / "pyproject.toml")]
    settings += ["--config", "lint.isort.known-first-party = ['harness']", "--no-cache"]
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *settings, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_it_says_what_it_wrote_and_what_comes_next(tmp_path: Path) -> None:
    result = new("mine", "--slot", "cache", "--into", str(tmp_path))
    folder = tmp_path / "mine"
    assert result.output.splitlines() == [
        f"wrote {folder / '__init__.py'}",
        f"wrote {folder / 'store.py'}",
        f"next: harness show mine --plugin-path {tmp_path}; "
        f"harness verify mine --plugin-path {tmp_path}",
    ]
    assert "$" not in (folder / "__init__.py").read_text() + (folder / "store.py").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mha", "--slot", "cache"), "there is a technique 'mha' already"),
        (("Mine", "--slot", "cache"), "'Mine' cannot name a technique"),
        (("my-own", "--slot", "cache"), "'my-own' cannot name a technique"),
        (("../mine", "--slot", "cache"), "'../mine' cannot name a technique"),
        (("class", "--slot", "cache"), "'class' cannot name a technique"),
        (("x" * 25, "--slot", "cache"), "cannot name a technique"),
        (("mine", "--slot", "cach"), "unknown slot 'cach'; did you mean 'cache'?"),
        (("mine", "--slot", "cache", "--title", 'a"b'), "cannot stand in a line of code"),
        (("mine", "--slot", "cache", "--title", "x" * 61), "at most 60 characters"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    error = new(*arguments, "--into", str(tmp_path / "new")).exception
    assert isinstance(error, HarnessError)
    assert message in str(error)
    assert not (tmp_path / "new").exists(), "nothing is left behind"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    assert new("mine", "--slot", "cache", "--into", str(tmp_path)).exit_code == 0
    error = new("mine", "--slot", "weights", "--into", str(tmp_path)).exception
    assert "exists already; choose another name" in str(error)
    assert not (tmp_path / "mine" / "linear.py").exists()


def test_a_place_that_cannot_be_written_to_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    error = new("mine", "--slot", "cache", "--into", str(tmp_path / "file")).exception
    assert isinstance(error, HarnessError)
    assert "cannot write to" in str(error)
