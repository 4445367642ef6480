"""Llama: rotary positions, grouped queries, SwiGLU, RMSNorm before each (arXiv:2302.13971)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt

from harness.errors import UsageError, printable
from harness.shape import ModelShape, RopeScaling
from harness.suite.validation import validate

# Two names of one function.
_ACTIVATIONS = ("silu", "swish")
# HuggingFace's name of each of ours, by layer and outside the layers.
_LAYER_NAMES = {
    "norm1": "input_layernorm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "norm2": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
_OUTER_NAMES = {
    "embed": "model.embed_tokens.weight",
    "norm": "model.norm.weight",
    "head": "lm_head.weight",
}


class _Foreign(BaseModel):
    """Part of somebody else's file: what this model does not read may stand there too."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _Rope(_Foreign):
    rope_type: str | None = None
    type: str | None = None  # the older name of rope_type
    rope_theta: PositiveFloat | None = None
    factor: PositiveFloat | None = None
    low_freq_factor: PositiveFloat | None = None
    high_freq_factor: PositiveFloat | None = None
    original_max_position_embeddings: PositiveInt | None = None


class _Config(_Foreign):
    vocab_size: PositiveInt
    hidden_size: PositiveInt
    num_hidden_layers: PositiveInt
    num_attention_heads: PositiveInt
    num_key_value_heads: PositiveInt | None = None
    head_dim: PositiveInt | None = None
    intermediate_size: PositiveInt
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    rms_norm_eps: PositiveFloat = 1e-6
    # transformers 5 moved the two settings below it into this one.
    rope_parameters: _Rope | None = None
    rope_scaling: _Rope | None = None
    rope_theta: PositiveFloat | None = None
    tie_word_embeddings: bool = False
    max_position_embeddings: PositiveInt = 2048
    eos_token_id: int | list[int] | None = None

    @property
    def rope(self) -> _Rope:
        return self.rope_parameters or self.rope_scaling or _Rope()


def shape(content: dict[str, Any], path: str) -> ModelShape:
    """The shape that a config declares; UsageError for what this model does not compute."""
    config = validate(_Config, content, lambda _: path)
    heads = config.num_attention_heads
    found = ModelShape(
        vocab=config.vocab_size,
        width=config.hidden_size,
        layers=config.num_hidden_layers,
        heads=heads,
        kv_heads=config.num_key_value_heads or heads,
        head_dim=config.head_dim or config.hidden_size // heads,
        ff=config.intermediate_size,
        eps=config.rms_norm_eps,
        theta=config.rope.rope_theta or config.rope_theta or 10000.0,
        rope_scaling=_rope_scaling(path, config.rope),
        tied=config.tie_word_embeddings,
        max_len=config.max_position_embeddings,
    )
    reason = _unsupported(config, found)
    if reason:
        raise UsageError(f"{path}: {reason}")
    return found


def name(ours: str) -> str:
    """HuggingFace's name of a tensor, "3.q" to "model.layers.3.self_attn.q_proj.weight"."""
    if ours in _OUTER_NAMES:
        return _OUTER_NAMES[ours]
    layer, part = ours.split(".")
    return f"model.layers.{layer}.{_LAYER_NAMES[part]}.weight"


def _unsupported(config: _Config, shape: ModelShape) -> str | None:
    """What the model asks for and this one does not compute, if anything."""
    for flag in ("attention_bias", "mlp_bias"):
        if getattr(config, flag):
            return f"{flag} is set, which this model does not implement"
    if config.hidden_act not in _ACTIVATIONS:
        return f"hidden_act is '{printable(config.hidden_act)}'; supported: silu"
    if shape.heads % shape.kv_heads:
        return (
            f"num_attention_heads {shape.heads} is no multiple of num_key_value_heads "
            f"{shape.kv_heads}"
        )
    if shape.head_dim < 2 or shape.head_dim % 2:
        return f"head_dim is {shape.head_dim}; rotary embedding needs an even one"
    return None


def _rope_scaling(path: str, rope: _Rope) -> RopeScaling | None:
    kind = rope.rope_type or rope.type or "default"
    if kind == "default":
        return None
    if kind != "llama3":
        raise UsageError(f"{path} scales rope by '{printable(kind)}'; supported: default, llama3")
    factor, low, high = rope.factor, rope.low_freq_factor, rope.high_freq_factor
    length = rope.original_max_position_embeddings
    if factor is None or low is None or high is None or length is None:
        needed = ("factor", "low_freq_factor", "high_freq_factor")
        names = (*needed, "original_max_position_embeddings")
        absent = next(name for name in names if getattr(rope, name) is None)
        raise UsageError(f"{path}: rope scaling by llama3 lacks the key '{absent}'")
    return RopeScaling(factor, low, high, length)
