"""`harness list`: every kind of thing, broken ones beside good ones, plain in a pipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from harness import cli, registry
from harness.cli.listing import Table, print_table
from harness.errors import HarnessError
from harness.metrics import METRICS
from harness.model import source
from harness.suite import shipped

MakePlugin = Callable[..., Path]


def run(*arguments: str, **environment: str) -> Result:
    """The command's answer; HarnessErrors stay what they are, for `main` to print."""
    return CliRunner().invoke(cli.build(), list(arguments), env=environment or None)


def first_words(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return [line.split()[0] for line in result.output.splitlines()[1:]]


def test_techniques_are_sorted_by_slot_and_baselines_marked() -> None:
    result = run("list", "techniques")
    assert set(first_words(result)) == set(registry.names())
    slots = [line.split()[1] for line in result.output.splitlines()[1:]]
    order = ["architecture", "weights", "cache", "decoding", "scheduling"]
    assert slots == sorted(slots, key=order.index)
    assert "Multi-head attention (baseline)" in result.output


def test_a_broken_plugin_shows_why_and_stops_no_other(make_plugin: MakePlugin) -> None:
    path = make_plugin(code="import no_such_module")
    make_plugin(name="good")
    result = run("list", "techniques", "--plugin-path", str(path))
    words = first_words(result)
    assert {"good", "extra", "mha"} <= set(words)
    assert words[-1] == "extra", "broken ones stand last"
    assert "ModuleNotFoundError" in result.output


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("kernels", registry.kernel_names()),
        ("metrics", list(METRICS)),
        ("models", source.names()),
        ("suites", shipped()),
    ],
)
def test_names(kind: str, names: list[str]) -> None:
    assert first_words(run("list", kind)) == names


def test_a_broken_suite_or_model_shows_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad.yaml").write_text("suite: bad\nstack: [mha]\n")
    monkeypatch.setattr("harness.paths.suites", lambda: tmp_path)
    assert "unknown key 'stack'; did you mean 'stacks'?" in run("list", "suites").output

    def broken(name: str, _architectures: object) -> Any:
        raise HarnessError(f"{name} has no config.json")

    monkeypatch.setattr(source, "find", broken)
    assert "tiny has no config.json" in run("list", "models").output


def test_hardware_is_this_machine() -> None:
    assert "local" in first_words(run("list", "hardware"))


def test_sweeps_without_a_database_is_one_sentence(tmp_path: Path) -> None:
    result = run("list", "sweeps", "--db", str(tmp_path / "none.db"))
    assert isinstance(result.exception, HarnessError)
    assert "there is no database" in str(result.exception)


def test_sweeps_of_the_environments_database(tmp_path: Path, example_sweep: Any) -> None:
    from harness.store import SweepStart, open_store

    url = str(tmp_path / "results.db")
    fields = set(SweepStart.model_fields)
    start = SweepStart.model_validate(example_sweep.row().model_dump(include=fields))
    with open_store(url) as store:
        number = store.begin_sweep(start)
    result = run("list", "sweeps", HARNESS_DB=url)
    assert first_words(result) == [str(number)]
    assert start.suite in result.output


def test_no_sweep_yet_says_what_to_do(tmp_path: Path) -> None:
    from harness.store import open_store

    open_store(str(tmp_path / "results.db")).close()
    result = run("list", "sweeps", "--db", str(tmp_path / "results.db"))
    assert result.output == "no sweep is stored yet; run 'harness sweep SUITE'\n"


def test_an_unknown_kind_is_one_sentence() -> None:
    result = run("list", "technique")
    assert isinstance(result.exception, HarnessError)
    assert "did you mean 'techniques'?" in str(result.exception)
    assert result.exception.exit_code == 2


def test_plain_columns_are_aligned_and_nothing_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    long = "[bold]" + "x" * 300
    print_table(Table(("a", "about"), [("short", long), ("a longer name", "")]))
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["a              about", f"short          {long}", "a longer name"]


def test_a_terminal_gets_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("list", "techniques", FORCE_COLOR="1", COLUMNS="60", TERM="xterm-256color")
    assert "\x1b[1m" in result.output, "column names are bold"
    assert "decode" in run("list", "suites", FORCE_COLOR="1", COLUMNS="60").output
