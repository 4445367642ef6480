"""YAML as suites read it: plain data, the line of everything, one sentence for what is not YAML."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from harness.errors import UsageError
from harness.suite import document
from harness.suite.document import read, scalar


@pytest.fixture(params=["libyaml", "python"], autouse=True)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parsers: PyYAML may be built without libyaml."""
    if request.param == "python":
        monkeypatch.setattr(document, "_LOADER", yaml.BaseLoader)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"), ("yes", "yes"), ("on", "on"), ("Off", "Off"), ("y", "y"),
        ("true", True), ("False", False), ("null", None), ("~", None), ("", None),
        ("12", 12), ("-3", -3), ("+3", 3), ("010", 10), ("0x10", "0x10"), ("1_000", "1_000"),
        ("1:30", "1:30"), ("2024-01-01", "2024-01-01"), ("1.5", 1.5), ("1e-3", 1e-3), (".5", 0.5),
        ("1.", 1.0), (".nan", ".nan"), (".inf", ".inf"), ("nan", "nan"), ("1.2.3", "1.2.3"),
        ("gqa+paged", "gqa+paged"), ("zoo/small", "zoo/small"), ("=", "="), ("<<", "<<"),
    ],
)  # fmt: skip
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    assert scalar(text) == value
    assert type(scalar(text)) is type(value)


def test_quoted_scalars_are_text() -> None:
    assert read("a: '12'\nb: \"true\"\nc: |\n  12\n", "s").values == {
        "a": "12", "b": "true", "c": "12\n",
    }  # fmt: skip


def test_keys_are_text() -> None:
    assert read("no: 1\ntrue: 2\n8: 3\n1.0: 4\n", "s").values == {
        "no": 1, "true": 2, "8": 3, "1.0": 4,
    }  # fmt: skip


def test_every_value_knows_its_line() -> None:
    found = read("a: 1\nb:\n  - 2\n  - c: 3\n    d: [4,\n        5]\n", "s.yaml")
    assert found.values == {"a": 1, "b": [2, {"c": 3, "d": [4, 5]}]}
    lines = {("a",): 1, ("b",): 2, ("b", 0): 3, ("b", 1): 4, ("b", 1, "c"): 4}
    lines |= {("b", 1, "d"): 5, ("b", 1, "d", 0): 5, ("b", 1, "d", 1): 6}
    for path, line in lines.items():
        assert found.place(path) == f"s.yaml, line {line}"
    assert found.place(("b", 1, "missing", 3)) == "s.yaml, line 4"
    assert found.place(("missing",)) == "s.yaml"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 1\nb: [1", "s.yaml, line [23] is not YAML: .*expected"),
        ("a: 1\n\tb: 2", "s.yaml, line 2 is not YAML: "),
        ("a: 1\nb: c: d", "s.yaml, line 2 is not YAML: mapping values are not allowed"),
        ("a: 'x", "s.yaml, line 1 is not YAML: found unexpected end of stream"),
        ("a: 1\nb: 2\na: 3", "s.yaml, line 3: the key 'a' stands here a second time"),
        ("a: {b: 1, b: 2}", "s.yaml, line 1: the key 'b' stands here a second time"),
        ("a: &x 1", "s.yaml, line 1: anchors and aliases"),
        ("a: 1\nb: *x", "s.yaml, line 2: anchors and aliases"),
        ("a: !!python/object:os.system x", "s.yaml, line 1: the tag '.*python.*' is not read"),
        ("a: !!int '3'", "s.yaml, line 1: the tag"),
        ("a: 1\n---\nb: 2", "s.yaml, line 2: a second document starts"),
        ("? [a]\n: 1", "s.yaml, line 1: a key must be text, not a list or a mapping"),
        ("- a", "s.yaml is not a mapping of keys to values"),
        ("abc", "s.yaml is not a mapping of keys to values"),
        ("", "s.yaml is empty; a suite starts with 'suite: NAME'"),
        ("# only a comment", "s.yaml is empty"),
        ("a: 1\nb: \x00", r"s.yaml, line 2: the character '\\x00' is not allowed in YAML"),
        ("a: \ud800", r"s.yaml, line 1: the character '\\ud800' is not allowed"),
        ('a: "\\ud800"', "s.yaml, line 1"),
        ('a: "\\0"', "s.yaml, line 1: .* holds a character that cannot be printed"),
        (f"a: {'9' * 5000}", "s.yaml, line 1: the number 9+... has more than 15 digits"),
        ("a: 1e999", "s.yaml, line 1: the number 1e999 is too large"),
        ("a: " + "[" * 17 + "]" * 17, "s.yaml, line 1: values are nested deeper than 16 levels"),
        ("[" * 100_000, "s.yaml, line 1"),
        ("{a: " * 50_000, "s.yaml, line 1"),
        ("a: " + "x" * 300_000, "s.yaml has 300003 characters"),
    ],
)  # fmt: skip
def test_what_is_not_a_suite_is_one_sentence(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        read(text, "s.yaml")
    assert str(caught.value).isprintable()


def test_numbers_keep_fifteen_digits() -> None:
    assert scalar("999999999999999") == 999_999_999_999_999
    assert scalar("-000000000000000000001") == -1
    with pytest.raises(ValueError, match="more than 15 digits"):
        scalar("1000000000000000")


@pytest.mark.parametrize(
    ("text", "value"), [("[1, a]", [1, "a"]), ("{a: 1}", {"a": 1}), ("x", "x"), ("", None)]
)
def test_one_value(text: str, value: Any) -> None:
    assert document.value(text, "--set") == value
