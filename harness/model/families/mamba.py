"""Mamba in HuggingFace's layout. Imports no torch."""

from __future__ import annotations

from typing import Any

from pydantic import PositiveFloat, PositiveInt

from harness.errors import UsageError
from harness.model.families.fields import Foreign
from harness.shape import ModelShape
from harness.suite.validation import validate

MIXER = "harness.model.state_space.layer:StateSpace"
# By the name of the part, in the mixer.
PARTS = {
    "in": "in_proj.weight",
    "conv": "conv1d.weight",
    "conv_bias": "conv1d.bias",
    "select": "x_proj.weight",
    "step": "dt_proj.weight",
    "step_bias": "dt_proj.bias",
    "decay_log": "A_log",
    "skip": "D",
    "out": "out_proj.weight",
}
_OUTER = {
    "embed": "backbone.embeddings.weight",
    "norm": "backbone.norm_f.weight",
    "head": "lm_head.weight",
}


class Config(Foreign):
    """The keys that are read."""

    vocab_size: PositiveInt
    hidden_size: PositiveInt
    num_hidden_layers: PositiveInt
    state_size: PositiveInt
    expand: PositiveInt = 2
    intermediate_size: PositiveInt | None = None
    conv_kernel: PositiveInt = 4
    time_step_rank: PositiveInt
    layer_norm_epsilon: PositiveFloat = 1e-5
    use_bias: bool = False
    use_conv_bias: bool = True
    hidden_act: str = "silu"
    tie_word_embeddings: bool = True


def shape(content: dict[str, Any], path: str) -> ModelShape:
    """The shape that a config declares; UsageError for what this model does not compute."""
    config = validate(Config, content, lambda _: path)
    if config.use_bias or not config.use_conv_bias or config.hidden_act not in ("silu", "swish"):
        raise UsageError(
            f"{path}: use_bias={config.use_bias}, use_conv_bias={config.use_conv_bias} and "
            f"hidden_act={config.hidden_act}; supported: false, true and silu"
        )
    extra = {
        "mamba_inner": config.intermediate_size or config.expand * config.hidden_size,
        "mamba_state": config.state_size,
        "mamba_conv": config.conv_kernel,
        "mamba_rank": config.time_step_rank,
        "mamba_normed": 0,
    }
    return ModelShape(
        vocab=config.vocab_size,
        width=config.hidden_size,
        layers=config.num_hidden_layers,
        # There is no attention: one head, as wide as the model, stands for it.
        heads=1,
        kv_heads=1,
        head_dim=config.hidden_size,
        ff=0,
        eps=config.layer_norm_epsilon,
        tied=config.tie_word_embeddings,
        # Nothing in it depends on the position; as long as any published context.
        max_len=1 << 24,
        mixers=(MIXER,) * config.num_hidden_layers,
        extra=tuple(sorted(extra.items())),
    )


def name(ours: str) -> str:
    """HuggingFace's name of the tensor that holds one of ours."""
    if ours in _OUTER:
        return _OUTER[ours]
    layer, part_name = ours.split(".")
    if part_name == "norm1":
        return f"backbone.layers.{layer}.norm.weight"
    return f"backbone.layers.{layer}.mixer.{PARTS[part_name]}"


def part(ours: str, tensor: Any, _shape: ModelShape) -> Any:
    """The convolution's weight has an axis of one in the middle."""
    return tensor[:, 0] if ours.endswith(".conv") else tensor


def technique(_shape: ModelShape) -> str:
    """The architecture that leaves the model as it is."""
    return "mamba"
