"""A draft tree whose first branch is wrong and whose second branch holds the script."""

from dataclasses import replace

from pydantic import Field

from harness.cost import Cost
from harness.plan import EnginePlan, Trait
from harness.shape import BatchShape
from harness.technique import Exactness, Factory, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """What is proposed."""

    script: tuple[tuple[int, ...], ...] = Field((), description="true new tokens by request id")


def exactness(_options: Options) -> Exactness:
    """Greedy verification changes no token."""
    return Exactness.IDENTICAL


def apply(plan: EnginePlan, options: Options) -> EnginePlan:
    """Propose the tree; it has five nodes."""
    return plan.add(
        Trait.REJECTS,
        Trait.TREE,
        decoder=Factory("harness.techniques.toy_tree.decoder:Tree", options),
        limits=replace(plan.limits, lookahead=5),
    )


def cost(so_far: Cost, _plan: EnginePlan, _options: Options, _batch: BatchShape) -> Cost:
    """The script is free."""
    return so_far


TECHNIQUE = Technique(
    name="toy_tree",
    title="Scripted tree",
    slot=Slot.DECODING,
    compared_with="autoregressive",
    exactness=exactness,
    lecture="8",
    papers=(),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.autoregressive.reference:generate",
)
