"""Llama's layers without a feed-forward: what a task needs that mixers alone can carry. The zoo
writes such checkpoints; HuggingFace has no class for them. Imports no torch."""

from __future__ import annotations

from typing import Any

from pydantic import NonNegativeInt

from harness.model.families import llama
from harness.shape import ModelShape
from harness.suite.validation import validate


class Config(llama.Config):
    """Llama's keys; the feed-forward has no width."""

    intermediate_size: NonNegativeInt = 0


def shape(content: dict[str, Any], path: str) -> ModelShape:
    """The shape that a config declares; UsageError for what this model does not compute."""
    return llama.declared(validate(Config, content, lambda _: path), path)


name = llama.name
part = llama.part
technique = llama.technique
