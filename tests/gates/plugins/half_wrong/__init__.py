"""A weights technique whose layers are not what its reference says: the gates must see it."""

from harness.cost import Cost
from harness.plan import EnginePlan
from harness.shape import BatchShape
from harness.technique import Exactness, Factory, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """Nothing to set."""


def exactness(_options: Options) -> Exactness:
    """So it says."""
    return Exactness.IDENTICAL


def apply(plan: EnginePlan, _options: Options) -> EnginePlan:
    """Layers of its own."""
    return plan.add(linear=Factory("harness.techniques.half_wrong.layer:HalfWrong"))


def cost(so_far: Cost, _plan: EnginePlan, _options: Options, _batch: BatchShape) -> Cost:
    """As dense."""
    return so_far


TECHNIQUE = Technique(
    name="half_wrong",
    title="Wrong in every second layer",
    slot=Slot.WEIGHTS,
    compared_with="dense",
    exactness=exactness,
    lecture="7",
    papers=(),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.dense.reference:dense",
)
