"""A GGUF file of the architecture "llama": its shape, and that every tensor of it can be read.

All of it is checked here, where nothing heavy is imported, so that a suite that names a file that
cannot be read is refused before anything is measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt

from harness.errors import printable, printable_path
from harness.model.gguf import Header
from harness.shape import ModelShape
from harness.suite.validation import validate

ARCHITECTURE = "llama"


@dataclass(frozen=True)
class Encoding:
    """How numbers of a GGML type are stored: blocks of so many numbers in so many bytes."""

    name: str
    numbers: int
    bytes: int


# By GGML's number of the type. In a block of Q4_1 are a scale, a minimum (16 bits each) and 32
# numbers of 4 bits; of Q8_0 a scale and 32 numbers of 8 bits.
ENCODINGS = {
    0: Encoding("F32", 1, 4),
    1: Encoding("F16", 1, 2),
    3: Encoding("Q4_1", 32, 20),
    8: Encoding("Q8_0", 32, 34),
}
_LAYER_NAMES = {
    "norm1": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "norm2": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}


class _Llama(BaseModel):
    """The metadata that decides what is computed; the rest is for other programs."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    block_count: PositiveInt
    context_length: PositiveInt
    embedding_length: PositiveInt
    feed_forward_length: PositiveInt
    attention_head_count: PositiveInt
    attention_head_count_kv: PositiveInt | None = None
    attention_key_length: PositiveInt | None = None
    attention_layer_norm_rms_epsilon: PositiveFloat
    rope_freq_base: PositiveFloat = 10000.0
    rope_dimension_count: PositiveInt | None = None
    rope_scaling_type: str = "none"
    expert_count: int = 0


def shape(header: Header) -> ModelShape:
    """The shape that a file declares, all of whose tensors are there, whole and readable.

    Raises UsageError, one sentence that names the file, for another architecture or quantization,
    a missing key or tensor, and a tensor that goes on behind the end of the file.
    """
    declared = header.metadata.get("general.architecture", "none named")
    if declared != ARCHITECTURE:
        raise header.error(
            f"the architecture is {printable(str(declared))}; supported: {ARCHITECTURE}"
        )
    prefix = f"{ARCHITECTURE}."
    given = {
        key.removeprefix(prefix).replace(".", "_"): value
        for key, value in header.metadata.items()
        if key.startswith(prefix)
    }
    llama = validate(_Llama, given, lambda _: printable_path(header.path), noun="metadata key")
    heads = llama.attention_head_count
    embedding = header.tensors.get("token_embd.weight")
    if embedding is None:
        raise header.error("the tensor token_embd.weight is missing")
    found = ModelShape(
        vocab=embedding.shape[0],
        width=llama.embedding_length,
        layers=llama.block_count,
        heads=heads,
        kv_heads=llama.attention_head_count_kv or heads,
        head_dim=llama.attention_key_length or llama.embedding_length // heads,
        ff=llama.feed_forward_length,
        eps=llama.attention_layer_norm_rms_epsilon,
        theta=llama.rope_freq_base,
        tied="output.weight" not in header.tensors,
        max_len=llama.context_length,
    )
    if reason := _unsupported(llama, found):
        raise header.error(reason)
    _check_tensors(header, found)
    return found


def tensors(shape: ModelShape) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Each tensor of a file by its GGUF name: our name of it, and its size."""
    D, F, V = shape.width, shape.ff, shape.vocab
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    found = {
        "token_embd.weight": ("embed", (V, D)),
        "output_norm.weight": ("norm", (D,)),
    }
    if not shape.tied:
        found["output.weight"] = ("head", (V, D))
    sizes: dict[str, tuple[int, ...]] = {
        "norm1": (D,), "q": (q, D), "k": (kv, D), "v": (kv, D), "o": (D, q),
        "norm2": (D,), "gate": (F, D), "up": (F, D), "down": (D, F),
    }  # fmt: skip
    for layer in range(shape.layers):
        for part, name in _LAYER_NAMES.items():
            found[f"blk.{layer}.{name}.weight"] = (f"{layer}.{part}", sizes[part])
    return found


def stored_bytes(size: tuple[int, ...], encoding: Encoding) -> int:
    """Bytes of a tensor in the file."""
    return math.prod(size) // encoding.numbers * encoding.bytes


def _unsupported(llama: _Llama, shape: ModelShape) -> str | None:
    """What the file asks for and this model does not compute, if anything."""
    if llama.expert_count:
        return f"it has {llama.expert_count} experts a layer, which this model does not implement"
    if llama.rope_scaling_type != "none":
        return f"it scales rope by '{printable(llama.rope_scaling_type)}'; supported: none"
    if shape.heads % shape.kv_heads:
        return f"{shape.heads} query heads cannot share {shape.kv_heads} key/value heads"
    if shape.head_dim % 2 or (llama.rope_dimension_count or shape.head_dim) != shape.head_dim:
        return (
            f"it rotates {llama.rope_dimension_count or shape.head_dim} of the {shape.head_dim} "
            "numbers of a head; all of them, and an even number, are supported"
        )
    return None


def _check_tensors(header: Header, shape: ModelShape) -> None:
    wanted = tensors(shape)
    if missing := [name for name in wanted if name not in header.tensors]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise header.error(f"the tensor {missing[0]}{more} is missing")
    for name, info in header.tensors.items():
        if name not in wanted:
            # A bias, or factors of rope: without it the model would compute something else.
            raise header.error(f"this model has no use for the tensor '{printable(name)}'")
        size = wanted[name][1]
        if info.shape != size:
            raise header.error(
                f"the tensor {name} is {list(info.shape)}, the metadata asks for {list(size)}"
            )
        encoding = ENCODINGS.get(info.type)
        if encoding is None:
            known = ", ".join(each.name for each in ENCODINGS.values())
            raise header.error(
                f"the tensor {name} is quantized as {_type_name(info.type)}; read are {known}"
            )
        if size[-1] % encoding.numbers:
            raise header.error(
                f"rows of {size[-1]} numbers of the tensor {name} are no whole blocks of "
                f"{encoding.name}, {encoding.numbers} each"
            )
        end = info.offset + stored_bytes(size, encoding)
        if end > header.size:
            raise header.error(
                f"the file is cut off: the tensor {name} ends at byte {end:,}, the file has "
                f"{header.size:,}"
            )


def _type_name(number: int) -> str:
    """GGML's name of a type, "Q6_K"; the number where it has none."""
    from gguf import GGMLQuantizationType

    try:
        return GGMLQuantizationType(number).name
    except ValueError:
        return f"type {number}"
