"""A chain of proposals from a script that is wrong at known places."""

from dataclasses import replace

from pydantic import Field, PositiveInt

from harness.cost import Cost
from harness.plan import EnginePlan, Trait
from harness.shape import BatchShape
from harness.technique import Exactness, Factory, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """What is proposed, and how far ahead."""

    script: tuple[tuple[int, ...], ...] = Field((), description="true new tokens by request id")
    wrong_every: PositiveInt = Field(5, description="of so many scripted tokens one is changed")
    length: PositiveInt = Field(3, description="proposals a step")


def exactness(_options: Options) -> Exactness:
    """Greedy verification changes no token."""
    return Exactness.IDENTICAL


def apply(plan: EnginePlan, options: Options) -> EnginePlan:
    """Propose the script."""
    return plan.add(
        Trait.REJECTS,
        decoder=Factory("harness.techniques.toy_chain.decoder:Chain", options),
        limits=replace(plan.limits, lookahead=options.length),
    )


def cost(so_far: Cost, _plan: EnginePlan, _options: Options, _batch: BatchShape) -> Cost:
    """The script is free."""
    return so_far


TECHNIQUE = Technique(
    name="toy_chain",
    title="Scripted chain",
    slot=Slot.DECODING,
    compared_with="autoregressive",
    exactness=exactness,
    lecture="8",
    papers=(),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.autoregressive.reference:generate",
)
