"""A cache that keeps its entries in eight bits, and says so unless told to lie."""

from pydantic import Field

from harness.cost import Cost
from harness.plan import EnginePlan, Trait
from harness.shape import BatchShape
from harness.technique import Exactness, Factory, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """Whether its promise is true."""

    honest: bool = Field(True, description="say that entries are rounded")


def exactness(options: Options) -> Exactness:
    """Rounding is lossy."""
    return Exactness.LOSSY if options.honest else Exactness.IDENTICAL


def apply(plan: EnginePlan, _options: Options) -> EnginePlan:
    """Contiguous, with rounded entries."""
    return plan.add(
        Trait.INCREMENTAL, cache=Factory("harness.techniques.rounded.store:RoundedStore")
    )


def cost(so_far: Cost, _plan: EnginePlan, _options: Options, _batch: BatchShape) -> Cost:
    """Entries lie in the dtype of the case here."""
    return so_far


TECHNIQUE = Technique(
    name="rounded",
    title="Rounded entries",
    slot=Slot.CACHE,
    compared_with="contiguous",
    exactness=exactness,
    lecture="6",
    papers=(),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.engine.reference:PlainStore",
)
