"""A decoder that proposes one token a step and takes it back: every step rewinds."""

from dataclasses import replace

from harness.cost import Cost
from harness.plan import EnginePlan, Trait
from harness.shape import BatchShape
from harness.technique import Exactness, Factory, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """Nothing to set."""


def exactness(_options: Options) -> Exactness:
    """What is taken back changes nothing."""
    return Exactness.IDENTICAL


def apply(plan: EnginePlan, _options: Options) -> EnginePlan:
    """One proposal a step."""
    return plan.add(
        Trait.REJECTS,
        decoder=Factory("harness.techniques.doubting.decoder:Doubting"),
        limits=replace(plan.limits, lookahead=1),
    )


def cost(so_far: Cost, _plan: EnginePlan, _options: Options, _batch: BatchShape) -> Cost:
    """Not counted: this technique is for gates, not for speed."""
    return so_far


TECHNIQUE = Technique(
    name="doubting",
    title="Propose and take back",
    slot=Slot.DECODING,
    compared_with="autoregressive",
    exactness=exactness,
    lecture="8.1",
    papers=(),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.autoregressive.reference:generate",
)
