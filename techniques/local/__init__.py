"""Sliding-window attention, with full layers in between where asked for."""

from dataclasses import replace

from pydantic import Field, NonNegativeInt, PositiveInt

from harness.cost import Cost, attention_cost
from harness.plan import EnginePlan, Trait
from harness.shape import BatchShape
from harness.technique import Exactness, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """How far local layers see, and which layers are not local."""

    window: PositiveInt = Field(
        1024, examples=[6, 64], description="W, tokens that a token sees, itself included"
    )
    global_every: NonNegativeInt = Field(
        0,
        examples=[0, 2],
        description="the last of so many layers sees everything; 6 is Gemma 3's 5:1, 0 is none",
    )


def exactness(_options: Options) -> Exactness:
    """Another model, trained for itself."""
    return Exactness.LOSSY


def apply(plan: EnginePlan, options: Options) -> EnginePlan:
    """A window by layer; a cache may give back what lies left of it."""
    every = options.global_every
    windows = tuple(
        0 if every and layer % every == every - 1 else options.window
        for layer in range(plan.shape.layers)
    )
    return plan.add(Trait.TOKEN_STATE, Trait.WINDOW, shape=replace(plan.shape, windows=windows))


def cost(_so_far: Cost, plan: EnginePlan, _options: Options, batch: BatchShape) -> Cost:
    """Attention of the finished shape: a local layer reads and holds W tokens at most."""
    return attention_cost(plan, batch)


TECHNIQUE = Technique(
    name="local",
    title="Local attention",
    slot=Slot.ARCHITECTURE,
    compared_with="mha",
    exactness=exactness,
    lecture="5.3",
    papers=("arXiv:2004.05150", "arXiv:2310.06825"),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.local.reference:logits",
    about=(
        "A local layer sees the last W tokens only: what it holds and reads stops growing there. "
        "global_every puts full layers in between, by which far tokens still reach. Combines with "
        "gqa and cla, which together are the recipe of Character.AI."
    ),
)
