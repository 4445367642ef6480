"""The numbers of a GGUF file as torch tensors, decoded by the `gguf` package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType
from gguf.quants import dequantize
from torch import Tensor

from harness.model import gguf, gguf_llama
from harness.model.gguf import TensorInfo
from harness.shape import ModelShape


def read(path: Path, dtype: torch.dtype, device: str) -> dict[str, Tensor]:
    """The tensors of a file by our names.

    What was 4 or 8 bits is a dense matrix afterwards: how it is kept in memory is the weights
    slot's to say. UsageError as `gguf_llama.shape` says, and for numbers that are not finite.
    """
    header = gguf.read(path)
    shape = gguf_llama.shape(header)
    found: dict[str, Tensor] = {}
    with path.open("rb") as file:
        for name, (ours, size) in gguf_llama.tensors(shape).items():
            info = header.tensors[name]
            file.seek(info.offset)
            raw = file.read(gguf_llama.stored_bytes(size, gguf_llama.ENCODINGS[info.type]))
            tensor = _paired_by_halves(ours, _decoded(raw, info), shape)
            if not bool(torch.isfinite(tensor).all()):
                raise header.error(f"the tensor {name} holds numbers that are not finite")
            found[ours] = tensor.to(device, dtype)
    return found


def _decoded(raw: bytes, info: TensorInfo) -> Tensor:
    """The numbers of a tensor in float32."""
    encoding = gguf_llama.ENCODINGS[info.type]
    *_, columns = info.shape
    rows = np.frombuffer(raw, dtype=np.uint8).reshape(
        -1, columns // encoding.numbers * encoding.bytes
    )
    numbers = dequantize(rows, GGMLQuantizationType(info.type))
    return torch.from_numpy(np.array(numbers, dtype=np.float32)).reshape(info.shape)


def _paired_by_halves(name: str, tensor: Tensor, shape: ModelShape) -> Tensor:
    """GGUF's rows of queries and keys of this architecture are ordered so that rotation turns
    neighbours; ours, as HuggingFace's, so that it turns d and d + H / 2."""
    part = name.rpartition(".")[2]
    if part not in ("q", "k"):
        return tensor
    H, D = shape.head_dim, shape.width
    return tensor.view(-1, H // 2, 2, D).transpose(1, 2).reshape(tensor.shape).contiguous()
