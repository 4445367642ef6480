"""Parts of a `config.json` that families share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt

from harness.errors import UsageError, printable
from harness.shape import RopeScaling


class Foreign(BaseModel):
    """Part of somebody else's file: what this model does not read may stand there too."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Rope(Foreign):
    """Rotary positions."""

    rope_type: str | None = None
    type: str | None = None  # the older name of rope_type
    rope_theta: PositiveFloat | None = None
    factor: PositiveFloat | None = None
    low_freq_factor: PositiveFloat | None = None
    high_freq_factor: PositiveFloat | None = None
    original_max_position_embeddings: PositiveInt | None = None


def rope_scaling(path: str, rope: Rope) -> RopeScaling | None:
    """How positions are stretched; UsageError for a way that this model does not compute."""
    kind = rope.rope_type or rope.type or "default"
    if kind == "default":
        return None
    if kind not in ("linear", "llama3"):
        raise UsageError(
            f"{path} scales rope by '{printable(kind)}'; supported: default, linear, llama3"
        )
    if kind == "linear":
        if rope.factor is None:
            raise UsageError(f"{path}: rope scaling by linear lacks the key 'factor'")
        # Llama 3's way with a training context of one position: every frequency is a slow one.
        return RopeScaling(rope.factor, 1.0, 4.0, 1)
    factor, low, high = rope.factor, rope.low_freq_factor, rope.high_freq_factor
    length = rope.original_max_position_embeddings
    if factor is None or low is None or high is None or length is None:
        needed = ("factor", "low_freq_factor", "high_freq_factor")
        names = (*needed, "original_max_position_embeddings")
        absent = next(name for name in names if getattr(rope, name) is None)
        raise UsageError(f"{path}: rope scaling by llama3 lacks the key '{absent}'")
    return RopeScaling(factor, low, high, length)
