"""`harness suite check` and `harness suite schema`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness import cli
from harness.errors import HarnessError
from harness.suite import json_schema, shipped

TEXT = """\
suite: small
about: Two stacks that fit and one that does not.
stacks: [mha, gqa, gqa(kv_heads=3)]
model: tiny
workload: {kind: generate, batch: [1, 8], prompt_tokens: 16, new_tokens: 4}
profiles:
  cuda: {model: llama-3-8b, workload: {batch: 64}, measure: {rounds: 5}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(TEXT)
    return path


def suite(*arguments: str) -> Result:
    return CliRunner().invoke(cli.build(), ["suite", *arguments])


def test_check_says_what_would_be_measured(file: Path) -> None:
    result = suite("check", str(file))
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [
        "small: Two stacks that fit and one that does not.",
        "  cpu: 4 cases in 3 rounds, 12 runs",
        "    mha: 2 cases on tiny",
        "    gqa: 2 cases on tiny",
        "    not supported, 2 cases: stack 'gqa(kv_heads=3)': gqa: 4 query heads cannot be shared "
        "out over kv_heads=3; take a divisor of 4",
        "  cuda: 2 cases in 5 rounds, 10 runs",
        "    mha: 1 case on llama-3-8b",
        "    gqa: 1 case on llama-3-8b",
        "    not supported, 1 case: stack 'gqa(kv_heads=3)': gqa: 32 query heads cannot be shared "
        "out over kv_heads=3; take a divisor of 32",
    ]


def test_check_takes_settings(file: Path) -> None:
    result = suite("check", str(file), "--set", "stacks=mha", "--set", "workload.batch=1,2,3")
    assert "  cpu: 3 cases in 3 rounds, 9 runs" in result.output.splitlines()


@pytest.mark.parametrize("name", shipped())
def test_shipped_suites_are_good(name: str) -> None:
    assert suite("check", name).exit_code == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model: tiny\n", "small.yaml names no model for the profile cpu"),
        ("stacks: [mha, gqa, gqa(kv_heads=3)]", "the key 'stacks' is missing"),
        (", gqa, gqa(kv_heads=3)]", "small.yaml, line 4 is not YAML"),
    ],
)
def test_a_wrong_suite_is_one_sentence(file: Path, change: str, message: str) -> None:
    file.write_text(TEXT.replace(change, "").replace("  cuda: {model: llama-3-8b, ", "  cuda: {"))
    error = suite("check", str(file)).exception
    assert isinstance(error, HarnessError)
    assert error.exit_code == 2
    assert message in str(error)


def test_schema_is_json() -> None:
    assert json.loads(suite("schema").output) == json_schema()
