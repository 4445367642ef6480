"""Thousands of broken suites: each is read, or refused in one sentence, at once.

`decode.yaml` is mutated as data (keys dropped and renamed, types swapped, numbers at their
extremes, odd text, deep nesting, huge grids) and as text. Whatever comes out must end in a Suite
or in a UsageError of one printable line; any other exception is a bug here, found by this test.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from harness import paths
from harness.errors import UsageError
from harness.suite import cases, override
from harness.suite.document import read
from harness.suite.grid import MAX_POINTS, grid
from harness.suite.loading import check
from harness.suite.schema import Suite

TEXT = (paths.suites() / "decode.yaml").read_text()
# A mutant may cost this many times what the suite itself costs (2.5 ms), measured in this process.
# Long lists and many stacks take up to ten times as much; a quadratic step anywhere takes hundreds.
PATIENCE = 40
# Planning is tried on small grids only, so that the whole test stays short.
PLANNED_POINTS = 100

WORDS = st.sampled_from([
    "mha", "gqa", "gqa(kv_heads=2)", "mha+gqa", "recompute", "cpu", "cuda", "generate", "serve",
    "float32", "bfloat16", "triton", "chat", "suite", "stacks", "baseline", "workload", "batch",
    "kind", "profiles", "include", "exclude", "stack", "name", "cache", "architecture", "null",
    "true", "no", "1:30", "0x10", "1_000", ".nan", "-.inf", "<<", "*a", "&a b", "!!int 3", "[", "}",
    "gqa(", "gqa(kv_heads=[[[[)", "a=b", "%", "@", "`", "- -", "? x", ": :", "# c", "../..", "~",
    "gqa+" * 50, "x" * 5000, "\N{ZERO WIDTH SPACE}", "\u202egqa", "\u0000", "\ud800", "Zürich",
    "\N{PILE OF POO}" * 20, "a\nb", "a\r\nb", "\t", "\x1b[31m", "{0}", "%s", "{kv_heads}", "\u2028",
])  # fmt: skip
NUMBERS = st.one_of(
    st.sampled_from([0, -1, 1, 2**31, 2**53, 2**63, 10**15, 10**400, 0.0, -0.0, 1e-320, 1e308,
                     0.1 + 0.2, float("inf"), float("nan"), 65_536, 65_537, 16_777_217]),
    st.integers(),
    st.floats(),
)  # fmt: skip
LEAVES = st.one_of(
    WORDS, NUMBERS, st.integers(1, 64), st.none(), st.booleans(), st.text(max_size=8)
)
LONG = st.integers(2, 2000).map(lambda n: list(range(1, n)))
DEEP = st.integers(1, 200).map(lambda n: json.loads("[" * n + "]" * n))
VALUES = st.one_of(
    LEAVES,
    LONG,
    DEEP,
    st.lists(LEAVES, max_size=4),
    st.dictionaries(st.one_of(WORDS, st.text(max_size=4)), LEAVES, max_size=4),
)


def containers(value: Any) -> list[Any]:
    """Every list and mapping inside a value, itself first."""
    inner = list(value.values()) if isinstance(value, dict) else value
    found = [value]
    for item in inner:
        if isinstance(item, dict | list):
            found += containers(item)
    return found


@st.composite
def mutants(draw: st.DrawFn) -> dict[str, Any]:
    """The suite's values with one to four of them changed."""
    values: dict[str, Any] = json.loads(json.dumps(read(TEXT, "decode.yaml").values))
    for _ in range(draw(st.integers(1, 4))):
        filled = [c for c in containers(values) if c]
        if not filled:
            break
        target = draw(st.sampled_from(filled))
        keys = list(target) if isinstance(target, dict) else list(range(len(target)))
        key = draw(st.sampled_from(keys))
        action = draw(st.sampled_from(["delete", "replace", "nest", "rename", "add", "steal"]))
        if action == "delete":
            del target[key]
        elif action == "replace":
            target[key] = draw(VALUES)
        elif action == "nest":
            target[key] = [target[key]] if draw(st.booleans()) else {"x": target[key]}
        elif action == "steal":
            other = draw(st.sampled_from(filled))
            target[key] = json.loads(json.dumps(other))
        elif isinstance(target, list):
            target.append(draw(VALUES))
        elif action == "rename":
            target[draw(st.one_of(WORDS, st.text(max_size=4)))] = target.pop(key)
        else:
            target[draw(st.one_of(WORDS, st.text(max_size=4)))] = draw(VALUES)
    return values


@st.composite
def garbled(draw: st.DrawFn) -> str:
    """The suite's text with one to six pieces cut out, put in or repeated."""
    text = TEXT
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 1, 1, 2, 5, 40])))
        piece = draw(st.one_of(WORDS, st.text(max_size=3), st.just(text[start:end] * 2)))
        text = text[:start] + piece + text[end:]
    return text


def outcome(text: str) -> Suite | str:
    """The suite that a text holds, checked; or the sentence that refuses it."""
    try:
        suite = Suite.of(read(text, "decode.yaml"))
        check(suite)
    except UsageError as error:
        return str(error)
    return suite


def cpu_seconds(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def assert_one_line(sentence: str) -> None:
    assert sentence.isprintable(), "nothing that breaks a line or moves a cursor"
    assert sentence.strip()
    assert len(sentence) < 600


def assert_told(text: str) -> None:
    """One of the two outcomes, in time; a small suite that is good can be planned or says why."""
    started = time.process_time()
    told = outcome(text)
    took = time.process_time() - started
    if took > PATIENCE * BASE_SECONDS:
        took = min(cpu_seconds(lambda: outcome(text)) for _ in range(3))
    assert took <= PATIENCE * BASE_SECONDS
    event("refused" if isinstance(told, str) else "read")
    if isinstance(told, str):
        assert_one_line(told)
        return
    assert grid(told).size <= MAX_POINTS
    if grid(told).size <= PLANNED_POINTS:
        try:
            cases(override(told, ["model=tiny"]), "cpu")
        except UsageError as error:
            sentence = str(error)
        else:
            return
        assert_one_line(sentence)


outcome(TEXT)  # techniques are imported here, once
BASE_SECONDS = min(cpu_seconds(lambda: outcome(TEXT)) for _ in range(5))

EFFORT = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@settings(EFFORT, max_examples=700)
@given(mutants())
def test_mutated_values(values: dict[str, Any]) -> None:
    # JSON is YAML, but for escapes of what YAML does not allow at all.
    assert_told(json.dumps(values, ensure_ascii=False, indent=1))


@settings(EFFORT, max_examples=700)
@given(garbled())
def test_garbled_text(text: str) -> None:
    assert_told(text)


@settings(EFFORT, max_examples=200)
@given(
    st.one_of(WORDS, st.text(max_size=30), st.tuples(WORDS, VALUES).map(lambda p: f"{p[0]}={p[1]}"))
)
def test_odd_settings(setting: str) -> None:
    suite = Suite.of(read(TEXT, "decode.yaml"))
    try:
        check(override(suite, [setting]))
    except UsageError as error:
        sentence = str(error)
    else:
        return
    assert_one_line(sentence)
