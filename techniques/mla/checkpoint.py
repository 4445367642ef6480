"""DeepSeek-V2 and -V3 in HuggingFace's layout, their dense layers. Imports no torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import PositiveFloat, PositiveInt

from harness.errors import UsageError
from harness.model.families import llama
from harness.shape import ModelShape
from harness.suite.validation import validate
from harness.techniques.mla import MIXER
from harness.techniques.mla.sizes import of

_NAMES = {
    "q": "q_proj",
    "q_down": "q_a_proj",
    "q_norm": "q_a_layernorm",
    "q_up": "q_b_proj",
    "kv_down": "kv_a_proj_with_mqa",
    "kv_norm": "kv_a_layernorm",
    "k_up": "kv_b_proj",
    "v_up": "kv_b_proj",
}
# The latents' norms do not read the config's rms_norm_eps.
_LATENT_EPS = 1e-6


class Config(llama.Config):
    """Llama's keys and the sizes of the latents."""

    kv_lora_rank: PositiveInt
    q_lora_rank: PositiveInt | None = None
    qk_nope_head_dim: PositiveInt
    qk_rope_head_dim: PositiveInt
    v_head_dim: PositiveInt
    rope_interleave: bool = True
    first_k_dense_replace: int = 0
    rms_norm_eps: PositiveFloat = _LATENT_EPS


def shape(content: dict[str, Any], path: str) -> ModelShape:
    """The shape that a config declares; UsageError for what this model does not compute."""
    config = validate(Config, content, lambda _: path)
    if config.first_k_dense_replace < config.num_hidden_layers:
        raise UsageError(
            f"{path}: layers from first_k_dense_replace={config.first_k_dense_replace} on are a "
            "mixture of experts, which this model does not implement"
        )
    if config.rms_norm_eps != _LATENT_EPS:
        raise UsageError(
            f"{path}: rms_norm_eps is {config.rms_norm_eps:g}, but the norms of this family's "
            f"latents always add {_LATENT_EPS:g}; one value for both is supported"
        )
    heads = config.num_attention_heads
    plain = config.model_copy(
        # A head's size here is that of the part which is not rotated.
        update={"num_key_value_heads": heads, "head_dim": config.qk_nope_head_dim}
    )
    found = llama.declared(plain, path)
    extra = {
        "kv_rank": config.kv_lora_rank,
        "q_rank": config.q_lora_rank or 0,
        "nope_dim": config.qk_nope_head_dim,
        "rope_dim": config.qk_rope_head_dim,
        "value_dim": config.v_head_dim,
        "interleaved": int(config.rope_interleave),
    }
    return replace(found, mixers=(MIXER,) * found.layers, extra=tuple(sorted(extra.items())))


def name(ours: str) -> str:
    """HuggingFace's name of the tensor that holds one of ours."""
    layer, _, part_name = ours.partition(".")
    if part_name in _NAMES:
        return f"model.layers.{layer}.self_attn.{_NAMES[part_name]}.weight"
    return llama.name(ours)


def part(ours: str, tensor: Any, shape: ModelShape) -> Any:
    """Ours from theirs: keys and values stand head by head in one matrix, and what is rotated
    stands in neighbouring pairs, where this model pairs halves."""
    z, N = of(shape), shape.heads
    kind = ours.rpartition(".")[2]
    if kind in ("k_up", "v_up"):
        by_head = tensor.view(N, z.nope_dim + z.value_dim, -1)
        cut = by_head[:, : z.nope_dim] if kind == "k_up" else by_head[:, z.nope_dim :]
        return cut.reshape(-1, tensor.shape[-1])
    if not shape.number("interleaved"):
        return tensor
    if kind in ("q", "q_up"):
        by_head = tensor.view(N, z.query, -1).clone()
        by_head[:, z.nope_dim :] = _halves(by_head[:, z.nope_dim :])
        return by_head.view_as(tensor)
    if kind == "kv_down":
        both = tensor.clone()
        both[z.kv_rank :] = _halves(tensor[None, z.kv_rank :])[0]
        return both
    return tensor


def technique(_shape: ModelShape) -> str:
    """The architecture that leaves the model as it is."""
    return "mla"


def _halves(rows: Any) -> Any:
    """Rows [N, rope, in] in the order 0, 2, 4, .., 1, 3, 5, .."""
    pairs = rows.unflatten(1, (-1, 2))
    return pairs.transpose(1, 2).flatten(1, 2).clone()
