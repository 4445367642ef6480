"""A recurrent mixer in small: a moving average of projected inputs. Alone, or every other layer."""

from dataclasses import replace

from pydantic import Field

from harness.cost import Cost
from harness.plan import EnginePlan, Trait
from harness.shape import BatchShape
from harness.technique import Exactness, Slot, Technique, TechniqueOptions

_ATTENTION = "harness.model.attention:Attention"


class Options(TechniqueOptions):
    """Which layers average."""

    hybrid: bool = Field(False, description="odd layers stay attention")
    share: float = Field(0.6, description="of the old mean in the new one")


def exactness(_options: Options) -> Exactness:
    """Another model."""
    return Exactness.LOSSY


def apply(plan: EnginePlan, options: Options) -> EnginePlan:
    """Name the mixer of every layer."""
    average = "harness.techniques.toy_average.layer:Average"
    other = _ATTENTION if options.hybrid else average
    mixers = tuple(other if layer % 2 else average for layer in range(plan.shape.layers))
    shape = replace(plan.shape, mixers=mixers, extra=(("average_share", options.share),))
    traits = {Trait.RECURRENT, Trait.TOKEN_STATE} if options.hybrid else {Trait.RECURRENT}
    return plan.add(*traits, shape=shape)


def cost(so_far: Cost, _plan: EnginePlan, _options: Options, _batch: BatchShape) -> Cost:
    """Not counted."""
    return so_far


TECHNIQUE = Technique(
    name="toy_average",
    title="Moving average",
    slot=Slot.ARCHITECTURE,
    compared_with="mha",
    exactness=exactness,
    lecture="5",
    papers=(),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.toy_average.reference:logits",
    own_layers=True,
)
