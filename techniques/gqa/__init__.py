"""Grouped-query attention: N/K query heads share one key/value head. K = 1 is multi-query."""

from dataclasses import replace

from pydantic import Field, PositiveInt

from harness.cost import Cost, attention_cost
from harness.errors import UnfitError
from harness.plan import EnginePlan, Trait
from harness.shape import BatchShape
from harness.technique import Exactness, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """How many key/value heads there are."""

    kv_heads: PositiveInt | None = Field(
        None,
        examples=[1, 2],
        description="K, key/value heads; N/K query heads share one. Default: the model's own, "
        "or N/4 where the model has as many as query heads",
    )


def exactness(_options: Options) -> Exactness:
    """Another model than the multi-head one: trained for itself, or averaged from it."""
    return Exactness.LOSSY


def apply(plan: EnginePlan, options: Options) -> EnginePlan:
    """Fewer key/value heads, everything else as it is."""
    shape = plan.shape
    kv_heads = options.kv_heads
    if kv_heads is None:
        kv_heads = shape.kv_heads if shape.kv_heads < shape.heads else max(1, shape.heads // 4)
    if shape.heads % kv_heads:
        raise UnfitError(
            f"gqa: {shape.heads} query heads cannot be shared out over kv_heads={kv_heads}; "
            f"take a divisor of {shape.heads}"
        )
    return plan.add(Trait.TOKEN_STATE, shape=replace(shape, kv_heads=kv_heads))


def cost(_so_far: Cost, plan: EnginePlan, _options: Options, batch: BatchShape) -> Cost:
    """All linear layers, and attention whose keys and values are read once a group."""
    return attention_cost(plan, batch)


TECHNIQUE = Technique(
    name="gqa",
    title="Grouped-query attention",
    slot=Slot.ARCHITECTURE,
    compared_with="mha",
    exactness=exactness,
    lecture="5.1",
    papers=("arXiv:2305.13245", "arXiv:1911.02150"),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.gqa.reference:logits",
    about=(
        "K key/value heads for N query heads: state and the bytes a decode step reads of it "
        "shrink by N/K, which is a larger batch in the same memory. kv_heads=1 is multi-query."
    ),
)
