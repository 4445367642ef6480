"""The zoo's own layout: Llama's names, with the attention one level down. Imports no torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import Field

from harness.model.families import attention_only, llama
from harness.shape import ModelShape
from harness.suite.validation import validate
from harness.techniques.conv import MIXER

_ATTENTION = ("q", "k", "v", "o")


class Config(attention_only.Config):
    """Llama's keys, the feed-forward's width 0 where there is none, and the convolution's."""

    conv_kernel: int = Field(ge=2)


def shape(content: dict[str, Any], path: str) -> ModelShape:
    """The shape that a config declares; UsageError for what this model does not compute."""
    config = validate(Config, content, lambda _: path)
    found = llama.declared(config, path)
    extra = (("conv_width", config.conv_kernel),)
    return replace(found, mixers=(MIXER,) * found.layers, extra=extra)


def name(ours: str) -> str:
    """The checkpoint's name of the tensor that holds one of ours."""
    layer, _, part_name = ours.partition(".")
    if part_name == "conv":
        return f"model.layers.{layer}.self_attn.conv.weight"
    if part_name in _ATTENTION:
        return f"model.layers.{layer}.self_attn.attention.{part_name}_proj.weight"
    return llama.name(ours)


def part(ours: str, tensor: Any, _shape: ModelShape) -> Any:
    """The convolution's weight has an axis of one in the middle."""
    return tensor[:, 0] if ours.endswith(".conv") else tensor


def technique(_shape: ModelShape) -> str:
    """The architecture that leaves the model as it is."""
    return "conv"
