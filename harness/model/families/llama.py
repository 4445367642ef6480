"""Llama: rotary positions, grouped queries, SwiGLU, RMSNorm before each (arXiv:2302.13971)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import PositiveFloat, PositiveInt

from harness.errors import UsageError, printable
from harness.model.families.fields import Foreign, Rope, rope_scaling
from harness.shape import ModelShape
from harness.suite.validation import validate

# Ours, by the names that configs have for it.
_ACTIVATIONS: dict[str, Literal["silu", "gelu"]] = {
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu",
}
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


class Config(Foreign):
    """The keys of a Llama-like config."""

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
    rope_parameters: Rope | None = None
    rope_scaling: Rope | None = None
    rope_theta: PositiveFloat | None = None
    tie_word_embeddings: bool = False
    max_position_embeddings: PositiveInt = 2048
    eos_token_id: int | list[int] | None = None

    @property
    def rope(self) -> Rope:
        """Wherever it stands."""
        return self.rope_parameters or self.rope_scaling or Rope()

    @property
    def gate(self) -> tuple[str, str]:
        """The key that names the activation of the feed-forward's gate, and its name."""
        return "hidden_act", self.hidden_act


def shape(content: dict[str, Any], path: str) -> ModelShape:
    """The shape that a config declares; UsageError for what this model does not compute."""
    return declared(validate(Config, content, lambda _: path), path)


def declared(config: Config, path: str) -> ModelShape:
    """The same from a config that was read."""
    heads = config.num_attention_heads
    key, activation = config.gate
    if activation not in _ACTIVATIONS:
        raise UsageError(
            f"{path}: {key} is '{printable(activation)}'; supported: {', '.join(_ACTIVATIONS)}"
        )
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
        rope_scaling=rope_scaling(path, config.rope),
        tied=config.tie_word_embeddings,
        max_len=config.max_position_embeddings,
        activation=_ACTIVATIONS[activation],
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


def part(_ours: str, tensor: Any, _shape: ModelShape) -> Any:
    """Every tensor is stored as it is used."""
    return tensor


def technique(shape: ModelShape) -> str:
    """The architecture that leaves the model as it is."""
    return "gqa" if shape.kv_heads < shape.heads else "mha"


def _unsupported(config: Config, shape: ModelShape) -> str | None:
    """What the model asks for and this one does not compute, if anything."""
    for flag in ("attention_bias", "mlp_bias"):
        if getattr(config, flag):
            return f"{flag} is set, which this model does not implement"
    if shape.heads % shape.kv_heads:
        return (
            f"num_attention_heads {shape.heads} is no multiple of num_key_value_heads "
            f"{shape.kv_heads}"
        )
    if shape.head_dim < 2 or shape.head_dim % 2:
        return f"head_dim is {shape.head_dim}; rotary embedding needs an even one"
    return None
