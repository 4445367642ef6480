"""Mamba: a selective state space in place of attention, with state of fixed size."""

from dataclasses import replace

from pydantic import Field, PositiveInt

from harness.cost import Cost
from harness.model.families.mamba import MIXER
from harness.model.state_space import sizes
from harness.model.state_space.work import decoder_cost
from harness.plan import EnginePlan, Trait
from harness.shape import BatchShape
from harness.technique import Exactness, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """Sizes of the state."""

    state: PositiveInt | None = Field(
        None, examples=[5], description="numbers of a channel's state. Default: 16"
    )
    expand: PositiveInt | None = Field(
        None, examples=[1], description="channels by the model's width. Default: 2"
    )
    conv: PositiveInt | None = Field(
        None, examples=[1, 2], description="tokens that the convolution sees. Default: 4"
    )


def exactness(_options: Options) -> Exactness:
    """Another model, trained for itself."""
    return Exactness.LOSSY


def apply(plan: EnginePlan, options: Options) -> EnginePlan:
    """Every layer's mixer, and its sizes; a checkpoint's own where an option is not given."""
    shape = plan.shape
    given = {
        "mamba_inner": None if options.expand is None else options.expand * shape.width,
        "mamba_state": options.state,
        "mamba_conv": options.conv,
    }
    shape = replace(shape, mixers=(MIXER,) * shape.layers, extra=sizes.filled(shape, given))
    return plan.add(Trait.RECURRENT, shape=shape)


def cost(_so_far: Cost, plan: EnginePlan, _options: Options, batch: BatchShape) -> Cost:
    """The whole model; nothing in it grows with the tokens held."""
    return decoder_cost(plan, batch)


TECHNIQUE = Technique(
    name="mamba",
    title="Selective state space",
    slot=Slot.ARCHITECTURE,
    compared_with="mha",
    exactness=exactness,
    lecture="6.1",
    papers=("arXiv:2312.00752",),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.mamba.reference:logits",
    own_layers=True,
    about=(
        "Each of expand x D channels carries state numbers from token to token, and the token "
        "chooses how much is kept and what is written. State and time of a decode step do not "
        "grow with the context; what a state of fixed size cannot hold, it forgets."
    ),
)
