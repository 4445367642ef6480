"""Gemma 3's language model in HuggingFace's layout (arXiv:2503.19786, 2): as Gemma 2, with normed
queries and keys, five layers of six with a window, and slower rotations in the sixth.

Imports no torch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import PositiveFloat, PositiveInt

from harness.errors import UsageError
from harness.model.families import gemma2
from harness.model.families.fields import Foreign, Rope
from harness.model.families.gemma2 import name, part, technique
from harness.shape import ModelShape
from harness.suite.validation import validate

__all__ = ["name", "part", "shape", "technique"]


class Config(gemma2.Config):
    """Gemma 2's keys with other defaults, and the rotation of layers with a window."""

    final_logit_softcapping: PositiveFloat | None = None
    max_position_embeddings: PositiveInt = 131072
    rope_theta: PositiveFloat | None = 1e6
    rope_local_base_freq: PositiveFloat = 10000.0
    sliding_window_pattern: PositiveInt = 6


class Rotations(Foreign):
    """How transformers 5 writes rotations that differ by kind of layer."""

    full_attention: Rope = Rope()
    sliding_attention: Rope = Rope()


def shape(content: dict[str, Any], path: str) -> ModelShape:
    """The shape that a config declares; UsageError for what this model does not compute."""
    by_kind = content.get("rope_parameters")
    local = None
    if isinstance(by_kind, dict):
        rotations = validate(Rotations, by_kind, lambda _: f"{path}: rope_parameters")
        kind = rotations.sliding_attention.rope_type or "default"
        if kind != "default":
            raise UsageError(
                f"{path}: rope of layers with a window is '{kind}'; supported: default"
            )
        local = rotations.sliding_attention.rope_theta
        content = content | {"rope_parameters": by_kind.get("full_attention")}
    config = validate(Config, content, lambda _: path)
    return replace(
        gemma2.declared(config, path, config.sliding_window_pattern),
        qk_norm=True,
        # Normed queries and keys need no cap: transformers ignores the key, where one has it.
        score_cap=0.0,
        window_theta=local or config.rope_local_base_freq,
    )
