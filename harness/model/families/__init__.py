"""The families of checkpoints that can be read: one module each, which imports no torch.

    shape(content, path) -> ModelShape     from the content of config.json
    name(ours) -> str                      HuggingFace's name of one of our tensors

A new family is a module here and its class in `FAMILIES`; mixers of its own are named in the shape.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol, cast

from harness.shape import ModelShape

# By the first entry of `architectures` in config.json.
FAMILIES = {"LlamaForCausalLM": "llama"}


class Family(Protocol):
    """What a module of this folder gives."""

    def shape(self, content: dict[str, Any], path: str) -> ModelShape:
        """The shape that a config declares; UsageError, which names the path, for what it lacks."""

    def name(self, ours: str) -> str:
        """The tensor's name in the checkpoint."""


def of(family: str) -> Family:
    """The module of a family."""
    return cast(Family, import_module(f"{__name__}.{family}"))
