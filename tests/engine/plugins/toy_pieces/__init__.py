"""A scheduler that admits at every step, feeds prompts in pieces, and preempts for no reason."""

from pydantic import Field, NonNegativeInt, PositiveInt

from harness.cost import Cost
from harness.plan import EnginePlan, Trait
from harness.shape import BatchShape
from harness.technique import Exactness, Factory, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """How much a step takes of a sequence."""

    piece: PositiveInt = Field(5, description="most certain tokens of one sequence in one step")
    preempt_every: NonNegativeInt = Field(0, description="steps between preemptions; 0: never")


def exactness(_options: Options) -> Exactness:
    """Who runs together changes no token."""
    return Exactness.IDENTICAL


def apply(plan: EnginePlan, options: Options) -> EnginePlan:
    """Grant partial runs."""
    return plan.add(
        Trait.CHUNKS,
        Trait.ALIGNS,
        Trait.PREEMPTS,
        scheduler=Factory("harness.techniques.toy_pieces.scheduler:Pieces", options),
    )


def cost(so_far: Cost, _plan: EnginePlan, _options: Options, _batch: BatchShape) -> Cost:
    """The batch is what is counted."""
    return so_far


TECHNIQUE = Technique(
    name="toy_pieces",
    title="Prompts in pieces",
    slot=Slot.SCHEDULING,
    compared_with="static",
    exactness=exactness,
    lecture="9",
    papers=(),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.static.reference:check",
)
