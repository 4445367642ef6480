"""HuggingFace `config.json` of the Llama family to a ModelShape. Imports no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.shape import ModelShape, RopeScaling

_ARCHITECTURES = ("LlamaForCausalLM",)


def read(folder: Path) -> tuple[ModelShape, int | None]:
    """The shape that a checkpoint folder declares, and its end-of-sequence token.

    Raises UsageError where the file is missing, is no JSON, names another family, or lacks a key.
    """
    path = folder / "config.json"
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        raise UsageError(f"{folder} holds no config.json, so it is no checkpoint folder") from None
    except json.JSONDecodeError as error:
        raise UsageError(f"{path} is not JSON: line {error.lineno}: {error.msg}") from None
    family = content.get("architectures") or ["none named"]
    if family[0] not in _ARCHITECTURES:
        raise UsageError(f"{path} declares {family[0]}; supported: {', '.join(_ARCHITECTURES)}")
    for unsupported in ("attention_bias", "mlp_bias"):
        if content.get(unsupported):
            raise UsageError(f"{path} sets {unsupported}, which this model does not implement")
    try:
        heads = content["num_attention_heads"]
        shape = ModelShape(
            vocab=content["vocab_size"],
            width=content["hidden_size"],
            layers=content["num_hidden_layers"],
            heads=heads,
            kv_heads=content.get("num_key_value_heads") or heads,
            head_dim=content.get("head_dim") or content["hidden_size"] // heads,
            ff=content["intermediate_size"],
            eps=content.get("rms_norm_eps", 1e-6),
            theta=_theta(content),
            rope_scaling=_rope_scaling(path, content),
            tied=bool(content.get("tie_word_embeddings", False)),
            max_len=content.get("max_position_embeddings", 2048),
        )
    except KeyError as missing:
        raise UsageError(f"{path} lacks the key {missing}") from None
    eos = content.get("eos_token_id")
    return shape, eos[0] if isinstance(eos, list) else eos


def _rope(content: dict[str, Any]) -> dict[str, Any]:
    # transformers 5 moved both settings into `rope_parameters`.
    return content.get("rope_parameters") or content.get("rope_scaling") or {}


def _theta(content: dict[str, Any]) -> float:
    return float(_rope(content).get("rope_theta") or content.get("rope_theta") or 10000.0)


def _rope_scaling(path: Path, content: dict[str, Any]) -> RopeScaling | None:
    rope = _rope(content)
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        return None
    if kind != "llama3":
        raise UsageError(f"{path} scales rope by '{kind}'; supported: default, llama3")
    return RopeScaling(
        factor=rope["factor"],
        low_freq_factor=rope["low_freq_factor"],
        high_freq_factor=rope["high_freq_factor"],
        original_max_len=rope["original_max_position_embeddings"],
    )
