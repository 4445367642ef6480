"""Cross-layer attention: consecutive layers share the keys and values of the first of them."""

from dataclasses import replace

from pydantic import Field, PositiveInt

from harness.cost import Cost, attention_cost
from harness.errors import UnfitError
from harness.plan import EnginePlan, Trait
from harness.shape import BatchShape
from harness.technique import Exactness, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """How many layers share."""

    share: PositiveInt | None = Field(
        None,
        examples=[1],
        description="consecutive layers with one group of keys and values; divides L. Default: the "
        "smallest above 1 that does",
    )


def exactness(options: Options) -> Exactness:
    """Another model, trained for itself, unless every layer keeps its own."""
    return Exactness.IDENTICAL if options.share == 1 else Exactness.LOSSY


def apply(plan: EnginePlan, options: Options) -> EnginePlan:
    """The first layer of each group projects, writes and owns; all of them read."""
    layers = plan.shape.layers
    divisors = [n for n in range(1, layers + 1) if layers % n == 0]
    share = options.share or (divisors[1] if layers > 1 else 1)
    if share not in divisors:
        raise UnfitError(
            f"cla: {layers} layers cannot be shared out in groups of share={share}; one of "
            f"{', '.join(map(str, divisors))} fits"
        )
    return plan.add(Trait.TOKEN_STATE, shape=replace(plan.shape, kv_share=share))


def cost(_so_far: Cost, plan: EnginePlan, _options: Options, batch: BatchShape) -> Cost:
    """Attention of the finished shape: less is held and written, but each layer still reads."""
    return attention_cost(plan, batch)


TECHNIQUE = Technique(
    name="cla",
    title="Cross-layer attention",
    slot=Slot.ARCHITECTURE,
    compared_with="mha",
    exactness=exactness,
    lecture="5.3",
    papers=("arXiv:2405.12981",),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.cla.reference:logits",
    about=(
        "share consecutive layers keep one group of keys and values, so state is share times "
        "smaller and share - 1 of share layers project none. What a decode step reads does not "
        "shrink: every layer reads the group it shares. Combines with gqa and local."
    ),
)
