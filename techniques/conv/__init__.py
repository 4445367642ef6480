"""Attention behind a short causal convolution: each token sees its neighbours before it attends."""

from dataclasses import replace

from pydantic import Field

from harness.cost import Cost, attention_cost
from harness.plan import EnginePlan, Trait
from harness.shape import DTYPE_BYTES, BatchShape, ModelShape
from harness.technique import Exactness, Slot, Technique, TechniqueOptions

MIXER = "harness.techniques.conv.layer:ConvAttention"
# Convolution and its addition.
_LAUNCHES = 2
# A sequence's window is joined, and what of it is seen next is kept; a prompt is convolved alone.
_SEQUENCE_LAUNCHES = 2


class Options(TechniqueOptions):
    """How far the convolution sees."""

    width: int | None = Field(
        None, ge=2, examples=[2, 3], description="k, tokens it sees, itself included. Default: 4"
    )


def exactness(_options: Options) -> Exactness:
    """Another model, trained for itself."""
    return Exactness.LOSSY


def apply(plan: EnginePlan, options: Options) -> EnginePlan:
    """Every layer's mixer, and its width; a checkpoint's own where none is given."""
    shape = plan.shape
    held = dict(shape.extra)
    width = options.width if options.width is not None else held.get("conv_width", 4)
    extra = tuple(sorted((held | {"conv_width": width}).items()))
    shape = replace(shape, mixers=(MIXER,) * shape.layers, extra=extra)
    return plan.add(Trait.RECURRENT, Trait.TOKEN_STATE, shape=shape)


def conv_width(shape: ModelShape) -> int:
    """Tokens that the convolution sees."""
    return int(shape.number("conv_width"))


def cost(_so_far: Cost, plan: EnginePlan, _options: Options, batch: BatchShape) -> Cost:
    """Attention's, and of each layer a convolution of the width D with its last inputs."""
    s, size, k = plan.shape, DTYPE_BYTES[plan.dtype], conv_width(plan.shape)
    channels = s.layers * s.width
    rows = batch.sequences * batch.queries
    state = batch.sequences * channels * (k - 1) * size
    alone = (batch.queries > 1) * 1.0
    return attention_cost(plan, batch) + Cost(
        # The products and their sum, and the addition to what came in.
        flops=rows * channels * (2 * k + 1),
        weight_bytes=channels * k * size,
        state_read_bytes=state,
        state_write_bytes=state,
        state_held_bytes=state,
        # The window in and out, its convolution out and in, the sum out.
        activation_bytes=5 * rows * channels * size,
        launches=s.layers * (_LAUNCHES + batch.sequences * (_SEQUENCE_LAUNCHES + alone)),
    )


TECHNIQUE = Technique(
    name="conv",
    title="Short convolution before attention",
    slot=Slot.ARCHITECTURE,
    compared_with="mha",
    exactness=exactness,
    lecture="6.1",
    papers=("arXiv:2312.04927",),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.conv.reference:logits",
    own_layers=True,
    checkpoints={"ConvAttentionForCausalLM": "harness.techniques.conv.checkpoint"},
    about=(
        "A causal convolution over the last width tokens is added to what a layer's attention "
        "reads. Recalling a value by its key takes two steps, giving each value the key before it "
        "and looking the key up; the convolution does the first, which attention alone learns "
        "late. It costs D (width - 1) numbers a layer and sequence beside keys and values."
    ),
)
