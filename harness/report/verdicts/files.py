"""Verdicts to files: the ending says which form, and a summary is cut to what GitHub takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.analysis.verdict import Verdicts
from harness.errors import UsageError
from harness.report.verdicts import junit, markdown, text

FORMAT_VERSION = 1


def as_json(told: Verdicts) -> str:
    """The whole as strict JSON: an undefined number is null, with its reason beside it."""
    content = {
        "format_version": FORMAT_VERSION,
        "exit_code": int(told.exit_code),
        "alarms": len(told.alarms),
        **told.model_dump(mode="json"),
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def from_json(content: str) -> Verdicts:
    """Verdicts as `as_json` wrote them. ValueError for anything else."""
    found: dict[str, Any] = json.loads(content)
    if found.pop("format_version", None) != FORMAT_VERSION:
        raise ValueError(f"no verdicts of format {FORMAT_VERSION}")
    del found["exit_code"], found["alarms"]
    return Verdicts.model_validate_json(json.dumps(found))


FORMS: dict[str, Callable[[Verdicts], str]] = {
    ".txt": text.plain,
    ".md": markdown.render,
    ".xml": junit.document,
    ".json": as_json,
}


def require_forms(paths: Sequence[Path]) -> None:
    """Refuse a file whose ending says no form, before anything is measured."""
    for path in paths:
        if path.suffix.lower() not in FORMS:
            raise UsageError(
                f"--output {path} does not say which form by its ending; name it "
                f"{', '.join(list(FORMS)[:-1])} or {list(FORMS)[-1]}"
            )


def write(told: Verdicts, path: Path) -> None:
    """Write one file in the form that its ending says. UsageError when it cannot be written."""
    require_forms([path])
    _put(path, FORMS[path.suffix.lower()](told), "w")


def add_summary(told: Verdicts, path: Path, whole: str = "the report's artifact") -> None:
    """Add the verdicts to a GitHub step summary, cut to its size."""
    _put(path, markdown.cut(markdown.render(told), whole=whole), "a")


def _put(path: Path, content: str, mode: str) -> None:
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.write(content)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
