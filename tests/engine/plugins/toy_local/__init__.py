"""Attention that sees only a window, and layers that share keys and values: each alone or both."""

from dataclasses import replace

from pydantic import Field, PositiveInt

from harness.cost import Cost
from harness.plan import EnginePlan, Trait
from harness.shape import BatchShape
from harness.technique import Exactness, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """What is restricted."""

    window: PositiveInt | None = Field(6, description="tokens that a token sees, itself included")
    share: PositiveInt = Field(1, description="consecutive layers with one group of entries")


def exactness(_options: Options) -> Exactness:
    """Another model."""
    return Exactness.LOSSY


def apply(plan: EnginePlan, options: Options) -> EnginePlan:
    """The standard mixer serves shared layers; a window has a mixer of its own."""
    local = ("harness.techniques.toy_local.layer:Local",) * plan.shape.layers
    shape = replace(
        plan.shape,
        window=options.window,
        kv_share=options.share,
        mixers=() if options.window is None else local,
    )
    return plan.add(Trait.TOKEN_STATE, Trait.WINDOW, shape=shape)


def cost(so_far: Cost, _plan: EnginePlan, _options: Options, _batch: BatchShape) -> Cost:
    """Not counted."""
    return so_far


TECHNIQUE = Technique(
    name="toy_local",
    title="Windows and shared layers",
    slot=Slot.ARCHITECTURE,
    compared_with="mha",
    exactness=exactness,
    lecture="5",
    papers=("arXiv:2405.12981",),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.toy_local.reference:logits",
)
