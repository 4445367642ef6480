"""Multi-head attention: every query head has a key/value head of its own. The baseline."""

from dataclasses import replace

from harness.cost import Cost, attention_cost
from harness.plan import EnginePlan, Trait
from harness.shape import BatchShape
from harness.technique import Exactness, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """Multi-head attention has nothing to set."""


def exactness(_options: Options) -> Exactness:
    """The baseline of its slot."""
    return Exactness.IDENTICAL


def apply(plan: EnginePlan, _options: Options) -> EnginePlan:
    """As many key/value heads as query heads, in every layer: no mixer of a checkpoint's own."""
    shape = replace(plan.shape, kv_heads=plan.shape.heads, mixers=())
    return plan.add(Trait.TOKEN_STATE, shape=shape)


def cost(_so_far: Cost, plan: EnginePlan, _options: Options, batch: BatchShape) -> Cost:
    """All linear layers, and attention over everything held."""
    return attention_cost(plan, batch)


TECHNIQUE = Technique(
    name="mha",
    title="Multi-head attention",
    slot=Slot.ARCHITECTURE,
    compared_with=None,
    exactness=exactness,
    lecture="5.1",
    papers=("arXiv:1706.03762",),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.mha.reference:logits",
    about="Softmax attention with K = N key/value heads: 2 L N H numbers of state a token.",
)
