"""Static batching: a batch is admitted whole and runs until its last sequence is done."""

from pydantic import Field, PositiveInt

from harness.cost import Cost
from harness.plan import EnginePlan
from harness.shape import BatchShape
from harness.technique import Exactness, Factory, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """What classic servers do that a ragged engine need not."""

    batch: PositiveInt | None = Field(
        None,
        description="sequences a batch, at most; none: as many as the engine holds at once",
        examples=[2],
    )
    pad_finished: bool = Field(
        False, description="keep computing finished rows until the whole batch is done"
    )
    emit_at_end: bool = Field(
        False, description="hold every answer back until the whole batch is done"
    )


def exactness(_options: Options) -> Exactness:
    """Who runs together changes no token."""
    return Exactness.IDENTICAL


def apply(plan: EnginePlan, options: Options) -> EnginePlan:
    """Admit a batch only when nothing runs."""
    return plan.add(scheduler=Factory("harness.techniques.static.scheduler:Static", options))


def cost(so_far: Cost, _plan: EnginePlan, _options: Options, _batch: BatchShape) -> Cost:
    """The batch is what is counted."""
    return so_far


TECHNIQUE = Technique(
    name="static",
    title="Static batching",
    slot=Slot.SCHEDULING,
    compared_with=None,
    exactness=exactness,
    lecture="9",
    papers=(),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.static.reference:check",
    about=(
        "First come, first served, a batch at a time. By default finished rows leave the batch "
        "and tokens are emitted at once, which is better than the static batching of Orca's "
        "comparison; pad_finished and emit_at_end give that one."
    ),
)
