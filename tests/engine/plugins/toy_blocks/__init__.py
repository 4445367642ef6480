"""Block diffusion in small: blocks of tokens filled by confidence, each place seeing its block."""

from dataclasses import replace

from pydantic import Field, PositiveInt

from harness.cost import Cost
from harness.plan import EnginePlan, Trait
from harness.shape import BatchShape
from harness.technique import Exactness, Factory, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """Sizes of a block and of a step."""

    block: PositiveInt = Field(4, description="places a block")
    per_step: PositiveInt = Field(2, description="places filled a step")


def exactness(_options: Options) -> Exactness:
    """Another way to generate."""
    return Exactness.LOSSY


def apply(plan: EnginePlan, options: Options) -> EnginePlan:
    """A block of look-ahead."""
    return plan.add(
        Trait.REJECTS,
        Trait.BLOCKWISE,
        decoder=Factory("harness.techniques.toy_blocks.decoder:Blocks", options),
        limits=replace(plan.limits, lookahead=options.block, align=options.block),
    )


def cost(so_far: Cost, _plan: EnginePlan, _options: Options, _batch: BatchShape) -> Cost:
    """Not counted."""
    return so_far


TECHNIQUE = Technique(
    name="toy_blocks",
    title="Blocks by confidence",
    slot=Slot.DECODING,
    compared_with="autoregressive",
    exactness=exactness,
    lecture="8",
    papers=("arXiv:2503.09573",),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.toy_blocks.reference:generate",
)
