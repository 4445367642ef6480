"""The plugin contract. Read this first.

A technique is a folder `techniques/<name>/` whose `__init__.py` ends with `TECHNIQUE =
Technique(...)`: data where it is data, named plain functions where it is code. That file imports
neither torch nor triton; heavy parts are named as "module:attribute" and resolved on use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from harness.cost import Cost
    from harness.plan import EnginePlan
    from harness.shape import BatchShape


class Slot(StrEnum):
    """The five places of a stack, in the order in which techniques are applied."""

    ARCHITECTURE = "architecture"
    WEIGHTS = "weights"
    CACHE = "cache"
    DECODING = "decoding"
    SCHEDULING = "scheduling"


class Exactness(StrEnum):
    """What a technique promises against the same stack with its slot at the baseline."""

    IDENTICAL = "identical"  # the same greedy tokens, up to ties
    DISTRIBUTION = "distribution"  # greedy tokens the same, sampled ones equally distributed
    LOSSY = "lossy"  # other outputs: quality is measured beside the speed


class TechniqueOptions(BaseModel):
    """What a suite may set on a technique. Subclass it; give every field a default and a text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def non_default(self) -> dict[str, Any]:
        """The options that differ from their defaults, as JSON values: what enters a case hash."""
        return self.model_dump(mode="json", exclude_defaults=True)


OptionsT = TypeVar("OptionsT", bound=TechniqueOptions)


@dataclass(frozen=True)
class Factory:
    """A part of an engine, by name: "module:attribute" and the options to call it with.

    `make(...)` imports the module and calls `attribute(*args, **kwargs)`, with
    `options=self.options` added when there are options.
    """

    target: str
    options: TechniqueOptions | None = None

    def load(self) -> Any:
        """The attribute itself, imported now."""
        return load(self.target)

    def make(self, *args: Any, **kwargs: Any) -> Any:
        """Call the attribute with these arguments and the options."""
        if self.options is not None:
            kwargs["options"] = self.options
        return self.load()(*args, **kwargs)


def load(target: str) -> Any:
    """Import "module:attribute". Raises ImportError or AttributeError with the target's name."""
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


@dataclass(frozen=True)
class Technique(Generic[OptionsT]):
    """One technique: what it is called, what it promises, and how it changes an engine plan.

    An architecture's `cost` counts the whole model of the finished plan; the other slots change
    what it counted.

    The reference is an implementation independent of the engine, slow and clear, named as
    "module:function". Its signature goes by slot:
      architecture  logits(weights, shape, tokens [T], dtype, linear) -> [T, V]
                    linear(name, x [T, in]) -> [T, out] applies the matrix of that name
      weights       dense(name, weight [out, in], options) -> the matrix in effect, float64
      cache         Store(groups): the plain twin of the token store, lists of entries
      decoding      generate(logits, prompt, new_tokens, uniform) -> tokens
      scheduling    check(events) -> None: raises AssertionError where an invariant is broken
    """

    name: str
    title: str
    slot: Slot
    compared_with: str | None  # the technique of the same slot it is measured against
    exactness: Callable[[OptionsT], Exactness]
    lecture: str  # section of the lecture, "5.1"
    papers: tuple[str, ...]
    options: type[OptionsT]
    apply: Callable[[EnginePlan, OptionsT], EnginePlan]
    cost: Callable[[Cost, EnginePlan, OptionsT, BatchShape], Cost]
    reference: str
    # An architecture with layers of its own kind goes last, in whatever order a stack is written:
    # its cost and reference, which count and compute everything, are the stack's.
    own_layers: bool = False
    # Checkpoints of its kind: HuggingFace's class to the module of a `harness.model.families`.
    checkpoints: Mapping[str, str] = field(default_factory=dict)
    about: str = ""  # one paragraph for `harness show`


BASELINES: dict[Slot, str] = {
    Slot.ARCHITECTURE: "mha",
    Slot.WEIGHTS: "dense",
    Slot.CACHE: "contiguous",
    Slot.DECODING: "autoregressive",
    Slot.SCHEDULING: "static",
}
