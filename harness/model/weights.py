"""State dicts: read from a checkpoint, or seeded random ones for a published shape.

Names used here: "embed" [V, D], "norm" [D], "head" [V, D], and by layer "3.norm1", "3.norm2" [D],
"3.q" [N H, D], "3.k", "3.v" [K H, D], "3.o" [D, N H], "3.gate", "3.up" [F, D], "3.down" [D, F].
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from harness.errors import UsageError
from harness.model.source import ModelSource, weight_files
from harness.shape import ModelShape

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


def expected(shape: ModelShape) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a Llama-shaped model's tensors."""
    D, F, V = shape.width, shape.ff, shape.vocab
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    sizes: dict[str, tuple[int, ...]] = {"embed": (V, D), "norm": (D,)}
    if not shape.tied:
        sizes["head"] = (V, D)
    for layer in range(shape.layers):
        sizes |= {
            f"{layer}.norm1": (D,),
            f"{layer}.q": (q, D),
            f"{layer}.k": (kv, D),
            f"{layer}.v": (kv, D),
            f"{layer}.o": (D, q),
        }
        if F:
            sizes |= {
                f"{layer}.norm2": (D,),
                f"{layer}.gate": (F, D),
                f"{layer}.up": (F, D),
                f"{layer}.down": (D, F),
            }
    return sizes


def load(
    source: ModelSource, shape: ModelShape, dtype: torch.dtype, device: str, seed: int = 0
) -> dict[str, Tensor]:
    """The tensors of a model in the given dtype. `shape` may differ from the source's only where
    weights are random. Raises UsageError naming a missing or misshapen tensor."""
    if source.folder is None:
        return random(shape, dtype, device, seed)
    return _read(source.folder, shape, dtype, device)


def random(shape: ModelShape, dtype: torch.dtype, device: str, seed: int = 0) -> dict[str, Tensor]:
    """Seeded weights with the spread of a trained model's: every activation stays near one."""
    generator = torch.Generator(device=device).manual_seed(seed)
    tensors: dict[str, Tensor] = {}
    for name, size in expected(shape).items():
        if len(size) == 1:
            tensors[name] = torch.ones(size, dtype=dtype, device=device)
            continue
        spread = 1.0 if name == "embed" else size[1] ** -0.5
        # Drawn in float32, so that a seed names the same numbers in every dtype.
        drawn = torch.randn(size, generator=generator, device=device) * spread
        tensors[name] = drawn.to(dtype)
    return tensors


def _hf_name(name: str) -> str:
    if name in _OUTER_NAMES:
        return _OUTER_NAMES[name]
    layer, part = name.split(".")
    return f"model.layers.{layer}.{_LAYER_NAMES[part]}.weight"


def _read(folder: Path, shape: ModelShape, dtype: torch.dtype, device: str) -> dict[str, Tensor]:
    wanted = {_hf_name(name): (name, size) for name, size in expected(shape).items()}
    tensors: dict[str, Tensor] = {}
    for path in weight_files(folder):
        try:
            with safe_open(path, framework="pt", device=device) as stream:
                for key in stream.keys():  # noqa: SIM118 - safe_open is no mapping
                    if key not in wanted:
                        continue
                    name, size = wanted[key]
                    tensor = stream.get_tensor(key)
                    if tuple(tensor.shape) != size:
                        raise UsageError(
                            f"{path}: tensor {key} is {list(tensor.shape)}, "
                            f"the config asks for {list(size)}"
                        )
                    if not tensor.is_floating_point():
                        raise UsageError(
                            f"{path}: tensor {key} holds {tensor.dtype}; a quantised checkpoint "
                            "is not read, since its numbers mean nothing without their scales"
                        )
                    tensors[name] = tensor.to(dtype)
        except SafetensorError as error:
            raise UsageError(f"{path} is no readable safetensors file: {error}") from None
    missing = [key for key, (name, _) in wanted.items() if name not in tensors]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise UsageError(f"{folder} lacks the tensor {missing[0]}{more}")
    return tensors
