"""Attention in some layers and selective state spaces in the others, as in Jamba."""

from dataclasses import replace

from pydantic import Field

from harness.cost import Cost, attention_layers_cost, outer_cost
from harness.errors import UnfitError
from harness.model.families.mamba import MIXER
from harness.model.state_space import sizes, work
from harness.plan import EnginePlan, Trait
from harness.shape import STANDARD_MIXER, BatchShape, ModelShape
from harness.technique import Exactness, Slot, Technique, TechniqueOptions

MIXERS = {"a": STANDARD_MIXER, "m": MIXER}
# Jamba's block: one attention layer in eight (arXiv:2403.19887, 3.1).
BLOCK = "mmmmammm"


class Options(TechniqueOptions):
    """Which layers are of which kind."""

    pattern: str | None = Field(
        None,
        examples=["am"],
        pattern="^[am]+$",
        description="a letter a layer, a: attention, m: state space, repeated over the layers. "
        "Default: the checkpoint's own, or one attention layer in the middle of every eight",
    )
    state: int | None = Field(
        None, gt=0, examples=[5], description="numbers of a channel's state. Default: 16"
    )


def exactness(_options: Options) -> Exactness:
    """Another model, trained for itself."""
    return Exactness.LOSSY


def apply(plan: EnginePlan, options: Options) -> EnginePlan:
    """A mixer by layer. State of both kinds then lives under one length."""
    shape = plan.shape
    mixers = shape.mixers
    if options.pattern is not None or not _mixed(shape):
        mixers = tuple(MIXERS[letter] for letter in _letters(options.pattern, shape.layers))
    given = {"mamba_state": options.state}
    shape = replace(shape, mixers=mixers, extra=sizes.filled(shape, given))
    if not _mixed(shape):
        raise UnfitError(
            f"hybrid: pattern={options.pattern} has layers of one kind only; "
            "mha, gqa and mamba are made of one kind"
        )
    return plan.add(Trait.RECURRENT, Trait.TOKEN_STATE, shape=shape)


def _mixed(shape: ModelShape) -> bool:
    return set(shape.mixers) == set(MIXERS.values())


def _letters(pattern: str | None, layers: int) -> str:
    """A letter for each layer."""
    if pattern is None:
        whole, rest = divmod(layers, len(BLOCK))
        # What fills no block is a small one, with its attention in the middle.
        return BLOCK * whole + ("m" * (rest // 2) + "a" + "m" * rest)[:rest]
    if layers % len(pattern):
        raise UnfitError(
            f"hybrid: a pattern of {len(pattern)} letters does not fit {layers} layers; its length "
            f"must divide {layers}"
        )
    return pattern * (layers // len(pattern))


def cost(_so_far: Cost, plan: EnginePlan, _options: Options, batch: BatchShape) -> Cost:
    """The layers of each kind by its own cost, and what is around them."""
    shape = plan.shape
    attending = [layer for layer, mixer in enumerate(shape.mixers) if mixer == STANDARD_MIXER]
    return (
        outer_cost(plan, batch)
        + attention_layers_cost(plan, batch, attending)
        + work.layers_cost(plan, batch, shape.layers - len(attending))
    )


TECHNIQUE = Technique(
    name="hybrid",
    title="Attention and state spaces",
    slot=Slot.ARCHITECTURE,
    compared_with="mha",
    exactness=exactness,
    lecture="6.1",
    papers=("arXiv:2403.19887",),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.hybrid.reference:logits",
    own_layers=True,
    about=(
        "A few attention layers keep what a state of fixed size forgets; the others keep nothing "
        "that grows. With one in eight the cache is an eighth of attention's."
    ),
)
