"""`harness show`: one technique, kernel, metric, model, suite or stored run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from harness import cli, registry
from harness.errors import HarnessError
from harness.suite import load

MakePlugin = Callable[..., Path]


def show(*arguments: str) -> Result:
    return CliRunner().invoke(cli.build(), ["show", *arguments])


@pytest.mark.parametrize("name", registry.names())
def test_every_technique(name: str) -> None:
    result = show(name)
    assert result.exit_code == 0, result.output
    technique = registry.get(name)
    assert technique.title in result.output
    assert technique.reference in result.output
    assert all(option in result.output for option in technique.options.model_fields)


def test_options_say_what_they_accept(make_plugin: MakePlugin) -> None:
    options = "size: int = Field(16, gt=0, le=64, description='tokens a block')\n"
    options += "    mode: Literal['a', 'b'] | None = None"
    path = make_plugin(options=options)
    file = path / "extra" / "__init__.py"
    file.write_text(f"from typing import Literal\nfrom pydantic import Field\n{file.read_text()}")
    result = show("extra", "--plugin-path", str(path))
    assert "size    integer > 0 <= 64   16       tokens a block" in result.output
    assert 'mode    "a" or "b" or null  null' in result.output


@pytest.mark.parametrize("name", registry.kernel_names())
def test_every_kernel(name: str) -> None:
    result = show(name)
    assert result.exit_code == 0, result.output
    assert registry.kernel(name).reference in result.output


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tpot", "better   lower"),
        ("tiny", "random, the same in every sweep"),
        ("zoo/small-mha", "trained"),
        ("zoo/small", "a family; the stack's architecture chooses its member"),
        ("llama-3-8b", "8.0B parameters"),
    ],
)
def test_metrics_and_models(name: str, text: str) -> None:
    assert text in show(name).output


def test_a_suite_is_shown_as_written() -> None:
    assert load("decode").text in show("decode").output


def test_a_run_is_shown_by_its_number(tmp_path: Path, example_sweep: Any) -> None:
    from harness.store import SweepStart, open_store

    url = str(tmp_path / "results.db")
    fields = set(SweepStart.model_fields)
    start = SweepStart.model_validate(example_sweep.row().model_dump(include=fields))
    run = example_sweep.runs()[0]
    with open_store(url) as store:
        number = store.save_run(store.begin_sweep(start), run.case, run.record)
    result = show(str(number), "--db", url)
    assert result.exit_code == 0, result.output
    assert run.case.hash[:8] in result.output
    missing = show(str(number + 7), "--db", url).exception
    assert isinstance(missing, HarnessError)
    assert f"{number + 7}" in str(missing)


def test_an_unknown_name_gets_the_closest_one() -> None:
    for given, meant in (("gqaa", "gqa"), ("tpott", "tpot"), ("decod", "decode")):
        error = show(given).exception
        assert isinstance(error, HarnessError)
        assert f"did you mean '{meant}" in str(error)
