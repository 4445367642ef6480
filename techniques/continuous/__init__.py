"""Continuous batching: who runs is decided anew at every step."""

from typing import Literal

from pydantic import Field, PositiveInt

from harness.cost import Cost
from harness.plan import EnginePlan, Trait
from harness.shape import BatchShape
from harness.technique import Exactness, Factory, Slot, Technique, TechniqueOptions

LEAST_BUDGET = 2048  # where a suite sets none


class Options(TechniqueOptions):
    """Who comes first, how much a step may take, and what happens when the cache is full."""

    budget: PositiveInt | None = Field(
        None,
        description="tokens a step feeds, at most; a prompt that is fed whole and is longer waits "
        "until nothing else runs; none: 2,048, or with whole prompts as much as the longest takes",
        examples=[4],
    )
    chunk: bool = Field(
        False, description="feed a prompt in pieces, as large as the budget leaves room for"
    )
    first: Literal["decode", "prefill"] = Field(
        "decode",
        description="decode: running sequences take their tokens first, and prompts what is left "
        "of the budget; prefill: while prompts wait, steps feed prompts alone",
    )
    policy: Literal["fcfs", "shortest"] = Field(
        "fcfs",
        description="which request enters first: the one that came first, or the shortest prompt",
    )
    preempt: Literal["recompute", "swap"] = Field(
        "recompute",
        description="a sequence that loses its room feeds its tokens again, or its state waits in "
        "host memory",
    )
    headroom: float = Field(
        0.01,
        ge=0,
        lt=1,
        description="share of a paged cache that admission leaves free for what runs already",
    )


def exactness(_options: Options) -> Exactness:
    """Who runs together changes no token."""
    return Exactness.IDENTICAL


def apply(plan: EnginePlan, options: Options) -> EnginePlan:
    """Admit, preempt and retire at every step."""
    traits = [Trait.PREEMPTS, *([Trait.CHUNKS, Trait.ALIGNS] if options.chunk else [])]
    scheduler = Factory("harness.techniques.continuous.scheduler:Continuous", options)
    return plan.add(*traits, scheduler=scheduler)


def cost(so_far: Cost, _plan: EnginePlan, _options: Options, _batch: BatchShape) -> Cost:
    """The batch is what is counted."""
    return so_far


TECHNIQUE = Technique(
    name="continuous",
    title="Continuous batching",
    slot=Slot.SCHEDULING,
    compared_with="static",
    exactness=exactness,
    lecture="9.1",
    papers=("OSDI 2022: Orca", "arXiv:2309.06180", "arXiv:2403.02310"),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.continuous.reference:check",
    about=(
        "After every step finished requests leave and waiting ones enter, as far as tokens a step "
        "and room in the cache allow (Orca's iteration-level scheduling and selective batching). "
        "With chunk a long prompt is fed beside the running sequences instead of before them "
        "(Sarathi-Serve). When the cache is full, the last that entered gives way."
    ),
)
