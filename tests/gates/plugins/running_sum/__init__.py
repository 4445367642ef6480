"""A recurrent architecture of a few lines, for faults that only recurrent state can have."""

from dataclasses import replace

from harness.cost import Cost, attention_cost
from harness.plan import EnginePlan, Trait
from harness.shape import BatchShape
from harness.technique import Exactness, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """Nothing to set."""


def exactness(_options: Options) -> Exactness:
    """Another model than the multi-head one."""
    return Exactness.LOSSY


def apply(plan: EnginePlan, _options: Options) -> EnginePlan:
    """Every layer but the last is recurrent; the last one has keys, so that there is a cache."""
    recurrent = "harness.techniques.running_sum.mixer:RunningSum"
    mixers = [recurrent] * (plan.shape.layers - 1) + ["harness.model.attention:Attention"]
    shape = replace(
        plan.shape, kv_heads=plan.shape.heads, mixers=tuple(mixers), extra=(("decay", 0.9),)
    )
    return plan.add(Trait.RECURRENT, Trait.TOKEN_STATE, shape=shape)


def cost(so_far: Cost, plan: EnginePlan, _options: Options, batch: BatchShape) -> Cost:
    """Counted as attention: this technique is for gates, not for speed."""
    return so_far + attention_cost(plan, batch)


TECHNIQUE = Technique(
    name="running_sum",
    title="Decaying sum",
    slot=Slot.ARCHITECTURE,
    compared_with="mha",
    exactness=exactness,
    lecture="5.4",
    papers=(),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.running_sum.reference:logits",
    own_layers=True,
)
