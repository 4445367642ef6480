"""The families of checkpoints that can be read: one module each, which imports no torch.

    shape(content, path) -> ModelShape     from the content of config.json
    name(ours) -> str                      HuggingFace's name of the tensor that holds one of ours
    part(ours, tensor, shape) -> tensor    ours, cut out of theirs and in our order
    technique(shape) -> str                the architecture that leaves the model as it is

A technique that brings its own kind of layer brings its families too (`Technique.checkpoints`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Protocol, cast

from harness import registry
from harness.errors import UsageError
from harness.shape import ModelShape

# By the first entry of `architectures` in config.json.
_FAMILIES = {
    "LlamaForCausalLM": "harness.model.families.llama",
    "MistralForCausalLM": "harness.model.families.mistral",
    "Gemma2ForCausalLM": "harness.model.families.gemma2",
    "Gemma3ForCausalLM": "harness.model.families.gemma3",
    "MambaForCausalLM": "harness.model.families.mamba",
    "JambaForCausalLM": "harness.model.families.jamba",
    "AttentionOnlyForCausalLM": "harness.model.families.attention_only",
}


class Family(Protocol):
    """What a family's module gives."""

    def shape(self, content: dict[str, Any], path: str) -> ModelShape:
        """The shape that a config declares; UsageError, which names the path, for what it lacks."""

    def name(self, ours: str) -> str:
        """The checkpoint's tensor that holds one of ours."""

    def part(self, ours: str, tensor: Any, shape: ModelShape) -> Any:
        """Our tensor, from the checkpoint's."""

    def technique(self, shape: ModelShape) -> str:
        """The architecture that leaves the model as it is."""


def known() -> Mapping[str, str]:
    """Module by class name: the families here, and those that techniques bring."""
    found: dict[str, str] = {}
    for name in registry.names():
        # A technique that cannot be imported brings no family, and stops no checkpoint of others.
        with suppress(UsageError):
            found |= registry.get(name).checkpoints
    return found | _FAMILIES


def of(module: str) -> Family:
    """A family by its module's name."""
    return cast(Family, import_module(module))
