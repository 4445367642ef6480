"""How a stack is written: text or a mapping to named techniques, and back to a label."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.errors import UsageError, printable, unknown
from harness.suite.case import Choice, StackSpec
from harness.suite.document import scalar, value
from harness.technique import BASELINES, Slot

MAX_CHARACTERS = 1_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.+-]{0,63}")
_PART = re.compile(r"(?P<technique>[^()=]+?)\s*(\((?P<options>.*)\))?", re.DOTALL)
_BARE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
_PAIRS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Named:
    """One technique as written; `slot` is None where the text leaves it to the technique."""

    technique: str
    options: Mapping[str, Any] = field(default_factory=dict)
    slot: Slot | None = None


def from_text(text: str) -> tuple[str | None, list[Named]]:
    """The techniques of "gqa(kv_heads=2)+paged"; a text gives no name of its own."""
    shown = printable(text, 60)
    if len(text) > MAX_CHARACTERS:
        raise UsageError(f"stack '{shown}' is longer than {MAX_CHARACTERS} characters")
    parts = []
    for piece in split(text, "+", f"stack '{shown}'"):
        match = _PART.fullmatch(piece.strip())
        if match is None:
            raise UsageError(
                f"stack '{shown}' has no technique where '{printable(piece.strip(), 40)}' stands; "
                "write it as gqa(kv_heads=2)+paged"
            )
        options = _options(match["options"] or "", shown)
        parts.append(Named(match["technique"], options))
    return None, parts


def from_mapping(spec: Mapping[str, Any]) -> tuple[str | None, list[Named]]:
    """The name, if one is given, and the techniques of {cache: {paged: {block: 16}}}."""
    name = spec.get("name")
    if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise UsageError(
            f"the stack name {printable(json.dumps(name, default=str), 40)} is not allowed; a name "
            "has letters, digits, spaces and _ . + -, at most 64 of them"
        )
    parts: list[Named] = []
    for key, content in spec.items():
        if key == "name":
            continue
        if key not in tuple(Slot):
            raise unknown("slot", str(key), ["name", *Slot])
        parts += _in_slot(Slot(key), content)
    return name, parts


def label(stack: StackSpec) -> str:
    """The canonical text: architectures always, other slots where they leave the baseline.

    A stack that is all baselines and names no architecture is called by its cache.

    `harness.stack.parse` reads it back to the same stack.
    """
    rest = {
        Slot.WEIGHTS: stack.weights,
        Slot.CACHE: stack.cache,
        Slot.DECODING: stack.decoding,
        Slot.SCHEDULING: stack.scheduling,
    }
    shown = [*stack.architecture]
    shown += [c for slot, c in rest.items() if c.options or c.technique != BASELINES[slot]]
    return "+".join(_choice(choice) for choice in shown or [stack.cache])


def split(text: str, separator: str, name: str) -> Iterator[str]:
    """The pieces between separators that stand outside brackets and quotes.

    UsageError, starting with `name`, for a bracket or quote that is not closed.
    """
    open_ones: list[str] = []
    quote = ""
    escaped = False
    start = 0
    for i, char in enumerate(text):
        if quote:
            if char == quote and not escaped:
                quote = ""
            escaped = char == "\\" and quote == '"' and not escaped
        elif char in "'\"":
            quote = char
        elif char in _PAIRS:
            open_ones.append(_PAIRS[char])
        elif char in _PAIRS.values():
            if not open_ones or open_ones.pop() != char:
                raise UsageError(f"{name} closes a '{char}' that is not open")
        elif char == separator and not open_ones:
            yield text[start:i]
            start = i + 1
    if open_ones or quote:
        raise UsageError(f"{name} misses a closing '{quote or open_ones[-1]}'")
    yield text[start:]


def _in_slot(slot: Slot, content: Any) -> list[Named]:
    """The techniques of one slot: text, or {technique: {option: value}}."""
    if isinstance(content, str):
        return [Named(part.technique, part.options, slot) for part in from_text(content)[1]]
    if not isinstance(content, Mapping) or not content:
        raise UsageError(
            f"the slot {slot} of a stack takes a technique or a mapping such as "
            f"{{gqa: {{kv_heads: 2}}}} (got {printable(json.dumps(content, default=str), 40)})"
        )
    parts = []
    for technique, options in content.items():
        if options is not None and not isinstance(options, Mapping):
            raise UsageError(
                f"the options of '{printable(str(technique))}' must be a mapping such as "
                f"{{kv_heads: 2}} (got {printable(json.dumps(options, default=str), 40)})"
            )
        parts.append(Named(str(technique), options or {}, slot))
    return parts


def _options(text: str, shown: str) -> dict[str, Any]:
    """The options of "kv_heads=2, block=16"."""
    options: dict[str, Any] = {}
    if not text.strip():
        return options
    for piece in split(text, ",", f"stack '{shown}'"):
        key, equals, given = piece.partition("=")
        key = key.strip()
        if not (equals and key and given.strip()) or key in options:
            raise UsageError(
                f"stack '{shown}': options are written option=value, each once "
                f"(got '{printable(piece.strip(), 40)}')"
            )
        options[key] = value(given.strip(), f"stack '{shown}'")
    return options


def _choice(choice: Choice) -> str:
    if not choice.options:
        return choice.technique
    options = (f"{key}={_value(option)}" for key, option in choice.options.items())
    return f"{choice.technique}({','.join(options)})"


def _value(option: Any) -> str:
    """A value that reads back as itself: words bare, all else as JSON, which is YAML too."""
    if isinstance(option, str) and _BARE.fullmatch(option) and scalar(option) == option:
        return option
    return json.dumps(option, ensure_ascii=False)
