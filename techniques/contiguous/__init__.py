"""The key/value cache as one region a sequence. The baseline of the cache slot."""

from harness.cost import Cost
from harness.plan import EnginePlan, Trait
from harness.shape import BatchShape
from harness.technique import Exactness, Factory, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """The contiguous cache has nothing to set: its size follows from the workload."""


def exactness(_options: Options) -> Exactness:
    """A cache changes when numbers are computed, not which."""
    return Exactness.IDENTICAL


def apply(plan: EnginePlan, _options: Options) -> EnginePlan:
    """Keep every sequence's entries in a slot of its own."""
    return plan.add(
        Trait.INCREMENTAL, cache=Factory("harness.techniques.contiguous.store:ContiguousStore")
    )


def cost(so_far: Cost, _plan: EnginePlan, _options: Options, _batch: BatchShape) -> Cost:
    """State is read and written as the architecture counted."""
    return so_far


TECHNIQUE = Technique(
    name="contiguous",
    title="Contiguous KV cache",
    slot=Slot.CACHE,
    compared_with="recompute",
    exactness=exactness,
    lecture="3.2",
    papers=("arXiv:1911.02150",),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.engine.reference:PlainStore",
    about=(
        "Keys and values of every token are kept, B S L K H 2 numbers, in one region a sequence "
        "that is reserved for its longest length."
    ),
)
