"""YAML text to plain values and the line of each, with no surprise in between.

The scalars are those of YAML 1.2's core schema: `no`, `on`, `1:30` and `2024-01-01` are text, only
`true` and `false` are truth values, `1e-3` is a number. Keys are always text, a key may stand
once in a mapping, and anchors, aliases, tags and a second document are refused: a suite is plain
data that reads the same to everybody.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from harness.errors import UsageError, printable

KeyPath = tuple[str | int, ...]

# Far above any suite (the longest shipped one has 60 lines), so that a wrong file is refused at
# once instead of being read for minutes.
MAX_CHARACTERS = 262_144
MAX_DEPTH = 16
# JSON's and SQLite's safe range of whole numbers has 15 full digits (2^53 is 9.0e15).
MAX_DIGITS = 15

_INTEGER = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: Mapping[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
# What YAML 1.2 section 5.1 does not count as printable, surrogates among it.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


@dataclass(frozen=True)
class Document:
    """A YAML file as read. `lines` counts from 1; a value's path is ("workload", "batch", 0)."""

    values: dict[str, Any]
    text: str
    name: str  # what messages call it: the path as the user gave it
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    settings: Mapping[KeyPath, str] = field(default_factory=dict)  # what `--set` changed

    def place(self, path: KeyPath) -> str:
        """Where a value stands, or the nearest one above it: "suites/decode.yaml, line 7"."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.settings:
                return f"--set {printable(self.settings[path[:end]])}"
        for end in range(len(path), 0, -1):
            if path[:end] in self.lines:
                return f"{self.name}, line {self.lines[path[:end]]}"
        return self.name


def read(text: str, name: str) -> Document:
    """The document in a text. UsageError with the line for whatever cannot be read."""
    values, lines = _build(text, name)
    if not isinstance(values, dict):
        what = "is empty" if values is None else "is not a mapping of keys to values"
        raise UsageError(f"{name} {what}; a suite starts with 'suite: NAME'")
    return Document(values, text, name, lines)


def value(text: str, name: str) -> Any:
    """One YAML value, for example of `--set`: a scalar, [a, b] or {a: 1}. UsageError otherwise."""
    return _build(text, name)[0]


def scalar(text: str) -> bool | int | float | str | None:
    """A plain scalar by YAML 1.2's core schema. ValueError for a number that is too large."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        if len(text.lstrip("+-").lstrip("0")) > MAX_DIGITS:
            raise ValueError(f"the number {printable(text, 40)} has more than {MAX_DIGITS} digits")
        return int(text)
    if _NUMBER.fullmatch(text):
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(f"the number {printable(text, 40)} is too large")
        return number
    return text


@dataclass
class _Frame:
    """A list or mapping that is still open. `key` waits for its value."""

    path: KeyPath
    content: list[Any] | dict[str, Any]
    key: str | None = None


def _build(text: str, name: str) -> tuple[Any, dict[KeyPath, int]]:
    """The value of the only document in a text, and the line of each path in it."""
    if len(text) > MAX_CHARACTERS:
        raise UsageError(f"{name} has {len(text)} characters; a suite has at most {MAX_CHARACTERS}")
    if found := _UNPRINTABLE.search(text):
        row = text.count("\n", 0, found.start()) + 1
        raise UsageError(f"{name}, line {row}: the character {found[0]!a} is not allowed in YAML")
    lines: dict[KeyPath, int] = {}
    frames: list[_Frame] = []
    result: Any = None
    documents = 0
    for event in _events(text, name):
        line = event.start_mark.line + 1
        where = f"{name}, line {line}"
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise UsageError(f"{where}: a second document starts; a suite is one document")
        elif isinstance(event, yaml.CollectionEndEvent):
            frames.pop()
        elif isinstance(event, yaml.NodeEvent):
            node = _node(event, where)
            if frames and isinstance(frames[-1].content, dict) and frames[-1].key is None:
                _take_key(frames[-1], event, where)
                lines[(*frames[-1].path, str(frames[-1].key))] = line
                continue
            path = _attach(frames[-1], node) if frames else ()
            lines.setdefault(path, line)
            if not frames:
                result = node
            if isinstance(node, list | dict):
                if len(frames) == MAX_DEPTH:
                    raise UsageError(f"{where}: values are nested deeper than {MAX_DEPTH} levels")
                frames.append(_Frame(path, node))
    return result, lines


def _events(text: str, name: str) -> Iterator[Any]:  # untyped: two parsers, one protocol
    """YAML's events one by one; a text that does not parse is one sentence with its line."""
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = name if mark is None else f"{name}, line {mark.line + 1}"
        problem = printable(error.problem or error.context or "it cannot be read", 160)
        raise UsageError(f"{place} is not YAML: {problem}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{name} is not YAML: {printable(str(error), 160)}") from error


def _node(event: Any, where: str) -> Any:
    """The value an event starts: a scalar, or an empty list or mapping that is filled later."""
    if isinstance(event, yaml.AliasEvent) or event.anchor:
        raise UsageError(f"{where}: anchors and aliases (&name, *name) are not read; write it out")
    if event.tag is not None:
        raise UsageError(f"{where}: the tag '{printable(str(event.tag))}' is not read; remove it")
    if isinstance(event, yaml.SequenceStartEvent):
        return []
    if isinstance(event, yaml.MappingStartEvent):
        return {}
    assert isinstance(event, yaml.ScalarEvent)
    if _UNPRINTABLE.search(event.value):
        raise UsageError(f"{where}: {event.value!a} holds a character that cannot be printed")
    if event.style:
        return event.value
    try:
        return scalar(event.value)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from error


def _take_key(frame: _Frame, event: Any, where: str) -> None:
    """Remember a mapping's next key."""
    assert isinstance(frame.content, dict)
    if not isinstance(event, yaml.ScalarEvent):
        raise UsageError(f"{where}: a key must be text, not a list or a mapping")
    if event.value in frame.content:
        raise UsageError(f"{where}: the key '{printable(event.value)}' stands here a second time")
    frame.key = event.value


def _attach(frame: _Frame, node: Any) -> KeyPath:
    """Put a value into the open list or mapping; its path."""
    if isinstance(frame.content, list):
        frame.content.append(node)
        return (*frame.path, len(frame.content) - 1)
    assert frame.key is not None
    key, frame.key = frame.key, None
    frame.content[key] = node
    return (*frame.path, key)
