"""Gemma 2 in HuggingFace's layout (arXiv:2408.00118): every other layer sees a window, norms stand
on both sides of mixer and feed-forward, scores and logits are capped. Imports no torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import PositiveFloat, PositiveInt

from harness.errors import UsageError, unknown
from harness.model.families import llama
from harness.shape import ModelShape
from harness.suite.validation import validate

# Whether a layer of that kind sees a window only.
_KINDS = {"sliding_attention": True, "full_attention": False}
# Where Gemma's name is not Llama's.
_LAYER_NAMES = {
    "q_norm": "self_attn.q_norm",
    "k_norm": "self_attn.k_norm",
    "norm1_post": "post_attention_layernorm",
    "norm2": "pre_feedforward_layernorm",
    "norm2_post": "post_feedforward_layernorm",
}


class Config(llama.Config):
    """Llama's keys, and those that Gemma adds."""

    hidden_activation: str = "gelu_pytorch_tanh"
    head_dim: PositiveInt | None = 256
    tie_word_embeddings: bool = True
    query_pre_attn_scalar: PositiveFloat = 256.0
    sliding_window: PositiveInt = 4096
    layer_types: list[str] | None = None
    attn_logit_softcapping: PositiveFloat | None = 50.0
    final_logit_softcapping: PositiveFloat | None = 30.0
    use_bidirectional_attention: bool | None = None

    @property
    def gate(self) -> tuple[str, str]:
        """Gemma's own key; `hidden_act` may stand there too and is not read."""
        return "hidden_activation", self.hidden_activation


def shape(content: dict[str, Any], path: str) -> ModelShape:
    """The shape that a config declares; UsageError for what this model does not compute."""
    return declared(validate(Config, content, lambda _: path), path, full_every=2)


def declared(config: Config, path: str, full_every: int) -> ModelShape:
    """The same from a config that was read; without `layer_types` the last of `full_every` layers
    sees everything."""
    if config.use_bidirectional_attention:
        raise UsageError(f"{path}: use_bidirectional_attention is set, and this model is causal")
    found = llama.declared(config, path)
    return replace(
        found,
        windows=_windows(config, path, full_every),
        embed_scale=found.width**0.5,
        post_norms=True,
        score_scale=config.query_pre_attn_scalar**-0.5,
        score_cap=config.attn_logit_softcapping or 0.0,
        logit_cap=config.final_logit_softcapping or 0.0,
    )


def _windows(config: Config, path: str, full_every: int) -> tuple[int, ...]:
    layers, kinds = config.num_hidden_layers, config.layer_types
    if kinds is None:
        sliding = [(layer + 1) % full_every > 0 for layer in range(layers)]
    else:
        for kind in kinds:
            if kind not in _KINDS:
                raise UsageError(f"{path}: {unknown('layer type', kind, _KINDS)}")
        if len(kinds) != layers:
            raise UsageError(f"{path}: layer_types has {len(kinds)} entries for {layers} layers")
        sliding = [_KINDS[kind] for kind in kinds]
    return tuple(config.sliding_window if slides else 0 for slides in sliding)


def name(ours: str) -> str:
    """HuggingFace's name of a tensor."""
    layer, _, part_name = ours.partition(".")
    if part_name in _LAYER_NAMES:
        return f"model.layers.{layer}.{_LAYER_NAMES[part_name]}.weight"
    return llama.name(ours)


def part(ours: str, tensor: Any, _shape: ModelShape) -> Any:
    """Norms are stored as what they differ from one."""
    return tensor + 1 if "norm" in ours else tensor


technique = llama.technique
