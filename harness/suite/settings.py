"""What changes a suite after it was read: the device's profile, and `--set key=value`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from harness.errors import UsageError, printable
from harness.stacktext import split
from harness.suite.document import KeyPath, scalar, value
from harness.suite.schema import NOT_IN_PROFILES, PROFILES, Profile, Suite


def with_profile(suite: Suite, profile: Profile) -> Suite:
    """The suite with a profile laid over it: mappings are merged, all other values replaced.

    The result has no profiles, so laying one over twice changes nothing more.
    """
    document = suite.document
    over = document.values.get("profiles", {}).get(profile, {})
    here: KeyPath = ("profiles", profile)
    for key in over:
        if key in NOT_IN_PROFILES:
            raise UsageError(f"{document.place((*here, key))}: a profile cannot change '{key}'")
    values = _laid({k: v for k, v in document.values.items() if k != "profiles"}, over)
    lines = dict(document.lines)
    lines |= {path[2:]: line for path, line in lines.items() if path[:2] == here and path != here}
    settings = dict(document.settings)
    settings |= {path[2:]: text for path, text in settings.items() if path[:2] == here}
    return Suite.of(replace(document, values=values, lines=lines, settings=settings))


def override(suite: Suite, settings: Sequence[str]) -> Suite:
    """The suite with "workload.batch=1,8" and the like set, in profiles too.

    A comma makes a list; values are YAML scalars, or JSON where they start with [, { or a quote.
    UsageError names the setting that does not fit.
    """
    document = suite.document
    values = deepcopy(document.values)
    changed = dict(document.settings)
    for setting in settings:
        path, given = _read(setting)
        _set(values, path, given, setting)
        if path[0] != "profiles":
            for profile in PROFILES:
                _drop(values.get("profiles", {}).get(profile, {}), path)
        changed[path] = setting
    return Suite.of(replace(document, values=values, settings=changed))


def _read(setting: str) -> tuple[KeyPath, Any]:
    """The key path and the value of "a.b=1,8"."""
    name = f"--set {printable(setting)}"
    key, equals, text = setting.partition("=")
    path = tuple(key.strip().split("."))
    if not equals or not all(path):
        raise UsageError(f"{name}: write it as key=value, for example workload.batch=1,8")
    text = text.strip()
    if text[:1] in ("[", "{", '"', "'"):
        return path, value(text, name)
    pieces = [piece.strip() for piece in split(text, ",", name)]
    if len(pieces) > 1 and not all(pieces):
        raise UsageError(f"{name}: a value is missing beside a comma")
    try:
        values = [scalar(piece) for piece in pieces]
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error
    return path, values[0] if len(values) == 1 else values


def _set(values: dict[str, Any], path: KeyPath, given: Any, setting: str) -> None:
    """Put a value at a path; mappings on the way are made where there is none yet."""
    at = values
    for i, key in enumerate(path[:-1]):
        inner = at.setdefault(str(key), {})
        if not isinstance(inner, dict):
            upto = ".".join(str(part) for part in path[: i + 1])
            raise UsageError(
                f"--set {printable(setting)}: '{printable(upto)}' has no keys of its own; "
                f"set it as a whole, {printable(upto)}=..."
            )
        at = inner
    at[str(path[-1])] = given


def _drop(values: dict[str, Any], path: KeyPath) -> None:
    """Remove what stands at a path, so that a profile does not lay it over again."""
    at: Any = values
    for key in path[:-1]:
        inner = at.get(key)
        if not isinstance(inner, dict):
            # A profile that replaces the whole of it, "slo: chat" under slo.ttft_ms=5.
            at.pop(key, None)
            return
        at = inner
    at.pop(path[-1], None)


def _laid(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """The base with the other laid over it, mapping by mapping."""
    merged = dict(base)
    for key, given in over.items():
        under = merged.get(key)
        both = isinstance(under, dict) and isinstance(given, dict)
        merged[key] = _laid(under, given) if both and under is not None else given
    return merged
