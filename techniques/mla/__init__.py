"""Multi-head latent attention: keys and values of all heads as one small latent a token."""

from dataclasses import replace

from pydantic import Field, NonNegativeInt, PositiveInt

from harness.cost import Cost
from harness.errors import UnfitError
from harness.plan import EnginePlan, Trait
from harness.shape import BatchShape, ModelShape
from harness.technique import Exactness, Slot, Technique, TechniqueOptions
from harness.techniques.mla.work import decoder_cost

MIXER = "harness.techniques.mla.layer:Latent"


class Options(TechniqueOptions):
    """Ranks and head sizes; DeepSeek-V2's at H = 128 are 512, 64, 128, 128."""

    kv_rank: PositiveInt | None = Field(
        None, description="R, numbers of the latent of keys and values. Default: 4 H"
    )
    rope_dim: PositiveInt | None = Field(
        None, description="numbers of the one rotated key that all heads share. Default: H / 2"
    )
    nope_dim: PositiveInt | None = Field(
        None, description="numbers of a head's key that are not rotated. Default: H"
    )
    value_dim: PositiveInt | None = Field(None, description="numbers of a head's value. Default: H")
    q_rank: NonNegativeInt | None = Field(
        None, examples=[0, 24], description="numbers of the queries' latent; 0: none. Default: 0"
    )
    without_rope_decoupling: bool = Field(
        False, examples=[], description="rotate the heads' own keys: refused, with the reason"
    )


def exactness(_options: Options) -> Exactness:
    """Another model, trained for itself."""
    return Exactness.LOSSY


def apply(plan: EnginePlan, options: Options) -> EnginePlan:
    """Every layer's mixer, and its sizes; a checkpoint's own where an option is not given."""
    if options.without_rope_decoupling:
        raise UnfitError(
            "mla: without_rope_decoupling cannot decode from the latent: the score of a query at "
            "position t and a key at s would be q R(t-s) W_UK c, whose rotation R stands between "
            "W_UK and the query, so that W_UK cannot be folded into it; rope_dim numbers of their "
            "own carry the position instead"
        )
    return plan.add(Trait.TOKEN_STATE, shape=_shape(plan.shape, options))


def _shape(shape: ModelShape, options: Options) -> ModelShape:
    trained = dict(shape.extra)
    defaults = {
        "kv_rank": 4 * shape.head_dim,
        "rope_dim": max(2, shape.head_dim // 2),
        "nope_dim": shape.head_dim,
        "value_dim": shape.head_dim,
        "q_rank": 0,
    }
    sizes = {name: trained.get(name, default) for name, default in defaults.items()}
    sizes |= {name: size for name in defaults if (size := getattr(options, name)) is not None}
    if int(sizes["rope_dim"]) % 2:
        raise UnfitError(
            f"mla: rope_dim={sizes['rope_dim']} is odd and a rotation turns pairs; an even one fits"
        )
    heads = shape.heads * (int(sizes["nope_dim"]) + int(sizes["value_dim"]))
    if int(sizes["kv_rank"]) >= heads:
        raise UnfitError(
            f"mla: a latent of kv_rank={sizes['kv_rank']} numbers compresses nothing: keys and "
            f"values of all heads have {heads}; take fewer"
        )
    others = {name: value for name, value in trained.items() if name not in sizes}
    extra = tuple(sorted((others | sizes).items()))
    # The latent belongs to no head: what is held does not depend on K.
    return replace(shape, mixers=(MIXER,) * shape.layers, kv_heads=shape.heads, extra=extra)


def cost(_so_far: Cost, plan: EnginePlan, _options: Options, batch: BatchShape) -> Cost:
    """The whole model, decoding in the absorbed form."""
    return decoder_cost(plan, batch)


TECHNIQUE = Technique(
    name="mla",
    title="Multi-head latent attention",
    slot=Slot.ARCHITECTURE,
    compared_with="mha",
    exactness=exactness,
    lecture="5.2",
    papers=("arXiv:2405.04434", "arXiv:2412.19437"),
    options=Options,
    apply=apply,
    cost=cost,
    reference="harness.techniques.mla.reference:logits",
    own_layers=True,
    checkpoints={
        "DeepseekV2ForCausalLM": "harness.techniques.mla.checkpoint",
        "DeepseekV3ForCausalLM": "harness.techniques.mla.checkpoint",
    },
    about=(
        "A token and layer keep kv_rank + rope_dim numbers for all heads, 576 at DeepSeek's shape "
        "where multi-head attention keeps 32,768. A prompt is computed with keys and values of "
        "every head; decoding folds the up-projections into query and output, so that all heads "
        "read the latent itself, like one key/value head."
    ),
)
