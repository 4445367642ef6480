"""Figures kept by the hash of all that decides them: one small file a unit."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import ValidationError

from harness.aot.figures import Figures


def folder() -> Path:
    """Where figures are kept: HARNESS_CACHE, or the user's cache folder."""
    given = os.environ.get("HARNESS_CACHE")
    if given:
        return Path(given) / "compiled"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "inference-harness" / "compiled"


def read(key: str, where: Path) -> Figures | None:
    """Figures of that key; None where there are none, or none that can be read."""
    try:
        return Figures.model_validate_json((where / f"{key}.json").read_bytes())
    except (OSError, ValidationError):
        return None


def write(key: str, figures: Figures, where: Path) -> None:
    """Keep figures. A reader sees all of a file or none of it."""
    where.mkdir(parents=True, exist_ok=True)
    part = where / f"{key}.{os.getpid()}"
    part.write_text(figures.model_dump_json(), encoding="utf-8")
    part.replace(where / f"{key}.json")
