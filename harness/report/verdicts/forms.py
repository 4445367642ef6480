"""The forms that verdicts take, by name and by the ending of a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import ValidationError

from harness.analysis.verdict import Verdicts
from harness.errors import UsageError, unknown
from harness.report.verdicts import github, junit, markdown, text


def as_json(told: Verdicts) -> str:
    """The record as strict JSON: an undefined number is null, with its reason beside it."""
    content = told.model_dump(mode="json")
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def from_json(content: str, name: str) -> Verdicts:
    """Verdicts as `as_json` wrote them. UsageError, with the file's name, for anything else."""
    try:
        return Verdicts.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise UsageError(f"{name} holds no verdicts: {place}: {first['msg']}") from None


FORMS: dict[str, Callable[[Verdicts], str]] = {
    "text": text.plain,
    "markdown": markdown.render,
    "junit": junit.document,
    "json": as_json,
    "annotations": github.render,
}
ENDINGS = {".txt": "text", ".md": "markdown", ".xml": "junit", ".json": "json"}


def render(told: Verdicts, form: str) -> str:
    """Verdicts in one of FORMS. UsageError for another name."""
    if form not in FORMS:
        raise unknown("form", form, FORMS)
    return FORMS[form](told)


def require_forms(paths: Sequence[Path]) -> None:
    """Refuse a file whose ending says no form, before anything is measured."""
    for path in paths:
        if path.suffix.lower() not in ENDINGS:
            raise UsageError(
                f"--output {path} does not say which form by its ending; name it "
                f"{', '.join(list(ENDINGS)[:-1])} or {list(ENDINGS)[-1]}"
            )


def write(told: Verdicts, path: Path) -> None:
    """Write one file in the form that its ending says. UsageError when it cannot be written."""
    require_forms([path])
    _put(path, render(told, ENDINGS[path.suffix.lower()]), "w")


def add_summary(told: Verdicts, path: Path, whole: str = "the report's artifact") -> None:
    """Add the verdicts to a GitHub step summary, cut to the size that GitHub takes."""
    _put(path, markdown.cut(markdown.render(told), whole=whole), "a")


def _put(path: Path, content: str, mode: str) -> None:
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.write(content)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
