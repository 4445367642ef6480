"""Dense weights as they were trained. The baseline of the weights slot."""

from harness.cost import Cost
from harness.plan import EnginePlan
from harness.shape import BatchShape
from harness.technique import Exactness, Factory, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """Dense weights have nothing to set."""


def exactness(_options: Options) -> Exactness:
    """The baseline of its slot."""
    return Exactness.IDENTICAL


def apply(plan: EnginePlan, _options: Options) -> EnginePlan:
    """Every matrix as it is."""
    return plan.add(linear=Factory("harness.model.linear:Dense"))


def cost(so_far: Cost, _plan: EnginePlan, _options: Options, _batch: BatchShape) -> Cost:
    """What the architecture counted, in the case's dtype."""
    return so_far


TECHNIQUE = Technique(
    name="dense",
    title="Dense weights",
    slot=Slot.WEIGHTS,
    compared_with=None,
    exactness=exactness,
    lecture="7",
    papers=(),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.dense.reference:dense",
    about="Weights in the dtype of the case, none removed, none rounded further.",
)
