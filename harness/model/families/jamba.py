"""Jamba in HuggingFace's layout, with dense feed-forward layers. Imports no torch."""

from __future__ import annotations

from typing import Any

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from harness.errors import UsageError
from harness.model.families import mamba
from harness.model.families.fields import Foreign
from harness.shape import STANDARD_MIXER, ModelShape
from harness.suite.validation import validate

_OUTER = {
    "embed": "model.embed_tokens.weight",
    "norm": "model.final_layernorm.weight",
    "head": "lm_head.weight",
}
_LAYER = {
    "norm1": "input_layernorm.weight",
    "norm2": "pre_ff_layernorm.weight",
    "gate": "feed_forward.gate_proj.weight",
    "up": "feed_forward.up_proj.weight",
    "down": "feed_forward.down_proj.weight",
    "q": "self_attn.q_proj.weight",
    "k": "self_attn.k_proj.weight",
    "v": "self_attn.v_proj.weight",
    "o": "self_attn.o_proj.weight",
    "step_norm": "mamba.dt_layernorm.weight",
    "write_norm": "mamba.b_layernorm.weight",
    "read_norm": "mamba.c_layernorm.weight",
    **{ours: f"mamba.{theirs}" for ours, theirs in mamba.PARTS.items()},
}


class Config(Foreign):
    """The keys that are read."""

    vocab_size: PositiveInt
    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    num_hidden_layers: PositiveInt
    num_attention_heads: PositiveInt
    num_key_value_heads: PositiveInt
    hidden_act: str = "silu"
    rms_norm_eps: PositiveFloat = 1e-6
    tie_word_embeddings: bool = False
    max_position_embeddings: PositiveInt = 262144
    num_experts: PositiveInt = 16
    attn_layer_period: PositiveInt = 8
    attn_layer_offset: NonNegativeInt = 4
    mamba_d_state: PositiveInt = 16
    mamba_d_conv: PositiveInt = 4
    mamba_expand: PositiveInt = 2
    mamba_dt_rank: PositiveInt
    mamba_conv_bias: bool = True
    mamba_proj_bias: bool = False


def shape(content: dict[str, Any], path: str) -> ModelShape:
    """The shape that a config declares; UsageError for what this model does not compute."""
    config = validate(Config, content, lambda _: path)
    if config.num_experts > 1:
        raise UsageError(
            f"{path}: num_experts is {config.num_experts}; only dense feed-forward layers, "
            "num_experts 1, are implemented"
        )
    if config.mamba_proj_bias or not config.mamba_conv_bias:
        raise UsageError(
            f"{path}: mamba_proj_bias={config.mamba_proj_bias} and "
            f"mamba_conv_bias={config.mamba_conv_bias}; supported: false and true"
        )
    layers, heads = config.num_hidden_layers, config.num_attention_heads
    attending = [
        layer % config.attn_layer_period == config.attn_layer_offset for layer in range(layers)
    ]
    extra = {
        "mamba_inner": config.mamba_expand * config.hidden_size,
        "mamba_state": config.mamba_d_state,
        "mamba_conv": config.mamba_d_conv,
        "mamba_rank": config.mamba_dt_rank,
        "mamba_normed": 1,
    }
    return ModelShape(
        vocab=config.vocab_size,
        width=config.hidden_size,
        layers=layers,
        heads=heads,
        kv_heads=config.num_key_value_heads,
        head_dim=config.hidden_size // heads,
        ff=config.intermediate_size,
        eps=config.rms_norm_eps,
        # The state spaces tell positions apart; attention is not told them (arXiv:2403.19887, 6.5).
        theta=0.0,
        tied=config.tie_word_embeddings,
        max_len=config.max_position_embeddings,
        mixers=tuple(STANDARD_MIXER if attends else mamba.MIXER for attends in attending),
        extra=tuple(sorted(extra.items())),
    )


def name(ours: str) -> str:
    """HuggingFace's name of the tensor that holds one of ours."""
    if ours in _OUTER:
        return _OUTER[ours]
    layer, part_name = ours.split(".")
    return f"model.layers.{layer}.{_LAYER[part_name]}"


def part(ours: str, tensor: Any, shape: ModelShape) -> Any:
    """As Mamba's."""
    return mamba.part(ours, tensor, shape)


def technique(_shape: ModelShape) -> str:
    """The architecture that leaves the model as it is."""
    return "hybrid"
