"""A small Llama: its config as a checkpoint folder has it, and the shape that it declares."""

from __future__ import annotations

from typing import Any

from harness.shape import ModelShape

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 11,
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "max_position_embeddings": 32,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1000.0,
    "tie_word_embeddings": False,
    "eos_token_id": 3,
}
SHAPE = ModelShape(
    vocab=11, width=8, layers=2, heads=2, kv_heads=1, head_dim=4, ff=12, eps=1e-5, theta=1000.0,
    max_len=32,
)  # fmt: skip
