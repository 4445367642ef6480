"""The key/value cache in blocks of fixed size behind a table, taken when they are needed."""

from dataclasses import replace
from typing import Literal

from pydantic import Field, PositiveInt

from harness.cost import Cost
from harness.errors import UnfitError
from harness.plan import EnginePlan, Trait
from harness.shape import BatchShape
from harness.technique import Exactness, Factory, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """How large a block is, and whether equal beginnings are held once."""

    block: PositiveInt = Field(16, description="tokens a block", examples=[3])
    share: bool = Field(
        False,
        description="hold equal beginnings once, found by their content, until room is needed; "
        "off by itself where layers have a window or a state of fixed size",
    )

    reservation: Literal["demand", "max", "pow2", "oracle"] = Field(
        "demand",
        description="demand: blocks as a sequence grows; the others reserve adjacent ones when it "
        "enters, as servers did before: for the longest there may be, for the next power of two of "
        "what it will generate, or for exactly that",
    )


def exactness(_options: Options) -> Exactness:
    """Where entries lie changes none of them."""
    return Exactness.IDENTICAL


def apply(plan: EnginePlan, options: Options) -> EnginePlan:
    """Keep entries in blocks."""
    if options.share and options.reservation != "demand":
        raise UnfitError("what is reserved ahead is not shared; reservation: demand fits share")
    traits = [Trait.INCREMENTAL, Trait.PAGED]
    traits += [Trait.GROWS] if options.reservation == "demand" else []
    traits += [Trait.SHARES_PREFIX] if options.share else []
    return plan.add(*traits, cache=Factory("harness.techniques.paged.store:PagedStore", options))


def cost(so_far: Cost, plan: EnginePlan, _options: Options, _batch: BatchShape) -> Cost:
    """State is read and written as the architecture counted; tables are small beside it.

    PyTorch has no attention over blocks: what is read is joined first, which writes and reads it
    once more.
    """
    if plan.backend == "triton":
        return so_far
    joined = 2 * so_far.state_read_bytes
    return replace(so_far, activation_bytes=so_far.activation_bytes + joined)


TECHNIQUE = Technique(
    name="paged",
    title="PagedAttention",
    slot=Slot.CACHE,
    compared_with="contiguous",
    exactness=exactness,
    lecture="9.2",
    papers=("arXiv:2309.06180",),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.engine.reference:PlainStore",
    about=(
        "Entries lie in blocks of fixed size that a sequence takes as it grows, so that less than "
        "one block a sequence stands empty and any free block will do. Sequences share blocks: "
        "parallel samples until one of them writes (copy-on-write), and, with share, all that "
        "begin alike. The reservation policies are Orca's, by a buddy allocator, on the same pools."
    ),
)
