"""Mistral: Llama with a sliding window in every layer (arXiv:2310.06825)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import PositiveInt

from harness.model.families import llama
from harness.model.families.llama import name, part, technique
from harness.shape import ModelShape
from harness.suite.validation import validate

__all__ = ["name", "part", "shape", "technique"]


class Config(llama.Config):
    """Llama's keys, and the window."""

    sliding_window: PositiveInt | None = None


def shape(content: dict[str, Any], path: str) -> ModelShape:
    """The shape that a config declares; UsageError for what this model does not compute."""
    config = validate(Config, content, lambda _: path)
    found = llama.declared(config, path)
    window = config.sliding_window
    return found if window is None else replace(found, windows=(window,) * found.layers)
