"""The JSON schema for editors says what the loader does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from harness.suite import Suite, json_schema, load, shipped
from harness.suite.slo import PRESETS

LoadText = Callable[..., Suite]


def faults(values: Any) -> list[str]:
    validator = jsonschema.Draft202012Validator(json_schema())
    return [error.message for error in validator.iter_errors(values)]


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("name", shipped())
def test_shipped_suites_pass(name: str) -> None:
    assert faults(load(name).document.values) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"basline": "mha"}, "basline"),
        ({"dtype": "fp32"}, "fp32"),
        ({"workload": {"kind": "serve"}}, "serve"),
        ({"measure": {"rounds": 0}}, "rounds|0"),
        ({"profiles": {"gpu": {}}}, "gpu"),
        ({"profiles": {"cuda": {"modle": "tiny"}}}, "modle"),
        ({"profiles": {"cuda": {"suite": "tiny"}}}, "suite"),
        ({"exclude": [{"bach": 1}]}, "bach"),
        ({"slo": "quick"}, "quick"),
        ({"stacks": [{"cach": "paged"}]}, "cach"),
    ],
)
def test_what_the_loader_refuses_an_editor_underlines(
    load_text: LoadText, change: dict[str, Any], message: str
) -> None:
    values = load_text().document.values | change
    assert any(part in " ".join(faults(values)) for part in message.split("|"))


def test_a_profile_needs_no_key(load_text: LoadText) -> None:
    values = load_text().document.values
    assert faults(values | {"profiles": {"cuda": {"workload": {"batch": 3}}}}) == []


def test_slo_presets_are_those_of_the_schema() -> None:
    text = str(json_schema()["properties"]["slo"])
    assert all(f"'{name}'" in text for name in PRESETS)
