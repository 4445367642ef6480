"""No cache: every step feeds the whole sequence again. What a KV cache is measured against."""

from dataclasses import replace

from harness.cost import Cost
from harness.plan import EnginePlan
from harness.shape import BatchShape
from harness.technique import Exactness, Factory, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """Recomputing has nothing to set."""


def exactness(_options: Options) -> Exactness:
    """The definition that caches are held to."""
    return Exactness.IDENTICAL


def apply(plan: EnginePlan, _options: Options) -> EnginePlan:
    """Hold nothing between steps."""
    return plan.add(cache=Factory("harness.techniques.recompute.store:RecomputeStore"))


def cost(so_far: Cost, _plan: EnginePlan, _options: Options, _batch: BatchShape) -> Cost:
    """The batch that is counted is already the whole sequence; nothing of it is held after."""
    return replace(so_far, state_held_bytes=0.0)


TECHNIQUE = Technique(
    name="recompute",
    title="No cache",
    slot=Slot.CACHE,
    compared_with="contiguous",
    exactness=exactness,
    lecture="3.1",
    papers=(),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.engine.reference:PlainStore",
    about=(
        "Generating token t costs a forward over t tokens, so T tokens cost O(T^2) in the "
        "feed-forward and O(T^3) in attention. It holds no state."
    ),
)
