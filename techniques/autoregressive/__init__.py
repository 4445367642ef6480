"""One token a sequence and step. The baseline of the decoding slot."""

from harness.cost import Cost
from harness.plan import EnginePlan
from harness.shape import BatchShape
from harness.technique import Exactness, Factory, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """Autoregressive decoding has nothing to set."""


def exactness(_options: Options) -> Exactness:
    """The definition that other decoders are held to."""
    return Exactness.IDENTICAL


def apply(plan: EnginePlan, _options: Options) -> EnginePlan:
    """Propose nothing; sample one token a step."""
    return plan.add(decoder=Factory("harness.techniques.autoregressive.decoder:Autoregressive"))


def cost(so_far: Cost, _plan: EnginePlan, _options: Options, _batch: BatchShape) -> Cost:
    """One forward a token."""
    return so_far


TECHNIQUE = Technique(
    name="autoregressive",
    title="Autoregressive decoding",
    slot=Slot.DECODING,
    compared_with=None,
    exactness=exactness,
    lecture="3.1",
    papers=(),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.autoregressive.reference:generate",
    about="A step is one forward with one new token a sequence; the next waits for it.",
)
