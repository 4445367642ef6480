"""GGUF files: what transformers computes from them, and one sentence for each that cannot be."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize

from harness import stack as stacks
from harness.errors import UsageError
from harness.gates import reference
from harness.model import gguf, gguf_llama, source, tokenizer, weights

LAYERS, D, F, V, N, K, H = 2, 64, 96, 120, 4, 2, 16
# Of the largest logit, as for folders (tests/model/test_transformers.py).
TOLERANCE = 2e-5
METADATA: dict[str, Any] = {
    "block_count": LAYERS,
    "vocab_size": V,
    "context_length": 128,
    "embedding_length": D,
    "feed_forward_length": F,
    "attention.head_count": N,
    "attention.head_count_kv": K,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "rope.freq_base": 5000.0,
    "rope.dimension_count": H,
}
TYPES = {name: GGMLQuantizationType[name] for name in ("F32", "F16", "Q8_0", "Q4_1", "Q5_0")}
Arrays = dict[str, np.ndarray[Any, Any]]


def _arrays(tied: bool = False) -> Arrays:
    """Weights as a file of the architecture names and orders them."""
    draw = np.random.default_rng(7)
    sizes = {"token_embd": (V, D), "output_norm": (D,)}
    if not tied:
        sizes["output"] = (V, D)
    for layer in range(LAYERS):
        for name, size in (
            ("attn_norm", (D,)), ("attn_q", (N * H, D)), ("attn_k", (K * H, D)),
            ("attn_v", (K * H, D)), ("attn_output", (D, N * H)), ("ffn_norm", (D,)),
            ("ffn_gate", (F, D)), ("ffn_up", (F, D)), ("ffn_down", (D, F)),
        ):  # fmt: skip
            sizes[f"blk.{layer}.{name}"] = size
    return {
        f"{name}.weight": draw.normal(len(size) == 1, 0.2, size).astype(np.float32)
        for name, size in sizes.items()
    }


def _write(
    path: Path,
    *,
    architecture: str = "llama",
    kind: str = "F32",
    arrays: Arrays | None = None,
    metadata: dict[str, Any] | None = None,
    more: Callable[[GGUFWriter], None] | None = None,
) -> Path:
    """A file of the tests; matrices of the type `kind`, vectors in float32."""
    writer = GGUFWriter(path, architecture)
    adders: dict[type, Callable[[str, Any], None]] = {
        int: writer.add_uint32,
        float: writer.add_float32,
        str: writer.add_string,
    }
    for key, value in (METADATA | (metadata or {})).items():
        if value is not None:
            adders[type(value)](f"{architecture}.{key}", value)
    if more is not None:
        more(writer)
    for name, array in (_arrays() if arrays is None else arrays).items():
        if array.ndim == 1 or kind == "F32":
            writer.add_tensor(name, array)
        elif kind == "F16":
            writer.add_tensor(name, array.astype(np.float16))
        else:
            writer.add_tensor(name, quantize(array, TYPES[kind]), raw_dtype=TYPES[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _logits(path: Path, ids: torch.Tensor) -> torch.Tensor:
    found = source.find(str(path), ["gqa"])
    spec = stacks.parse("gqa")
    plan = stacks.resolve(
        spec, found, dtype="float32", backend="torch", slots=1, max_tokens=len(ids)
    )
    loaded = weights.load(found, found.shape, torch.float32, "cpu")
    return reference.logits(spec, plan, loaded, ids, torch.float32)


@pytest.mark.parametrize("tied", [False, True], ids=["head", "tied"])
@pytest.mark.parametrize("kind", ["F32", "F16", "Q8_0", "Q4_1"])
def test_logits_are_those_of_transformers(kind: str, tied: bool, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    path = _write(tmp_path / "model.gguf", kind=kind, arrays=_arrays(tied))
    ids = torch.arange(40) * 7 % V
    oracle = AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file=path.name, dtype=torch.float32
    )
    with torch.inference_mode():
        exact = oracle(ids[None]).logits[0]
    assert (_logits(path, ids) - exact).abs().max() <= TOLERANCE * exact.abs().max()
    assert source.find(str(path), ()).shape.tied is tied


def test_queries_that_stay_in_the_files_order_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong twin: a reader that leaves rows paired as neighbours gives other logits."""
    from harness.model import gguf_tensors

    path, ids = _write(tmp_path / "model.gguf"), torch.arange(20)
    right = _logits(path, ids)
    monkeypatch.setattr(gguf_tensors, "_paired_by_halves", lambda name, tensor, shape: tensor)
    assert (_logits(path, ids) - right).abs().max() > 1e-2


def test_a_file_names_model_and_weights(tmp_path: Path) -> None:
    path = _write(tmp_path / "model.gguf", more=lambda w: w.add_eos_token_id(5))
    found = source.find(str(path), ())
    assert (found.kind, found.gguf, found.eos, found.tokenizer) == ("trained", path, 5, None)
    assert found.architecture == "gqa"
    first = found.checkpoint_hash
    _write(path, kind="F16")
    assert source.find(str(path), ()).checkpoint_hash != first


def _load(path: Path) -> None:
    found = source.find(str(path), ())
    weights.load(found, found.shape, torch.float32, "cpu")


def _sentence(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        _load(path)
    text = str(caught.value)
    assert "\n" not in text
    assert path.name in text
    return text


def _changed(**changes: Any) -> Arrays:
    arrays = _arrays()
    for name, array in changes.items():
        full = name.replace("__", ".") + ".weight"
        if array is None:
            del arrays[full]
        else:
            arrays[full] = array
    return arrays


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "architecture": ({"architecture": "mamba"}, "the architecture is mamba; supported: llama"),
    "quantization": ({"kind": "Q5_0"}, "is quantized as Q5_0; read are F32, F16, Q4_1, Q8_0"),
    "no-key": ({"metadata": {"block_count": None}}, "the metadata key 'block_count' is missing"),
    "no-layers": ({"metadata": {"block_count": 0}}, "block_count must be greater than 0"),
    "experts": ({"metadata": {"expert_count": 8}}, "8 experts a layer"),
    "rope": ({"metadata": {"rope.scaling.type": "yarn"}}, "scales rope by 'yarn'"),
    "half-rope": ({"metadata": {"rope.dimension_count": 8}}, "rotates 8 of the 16 numbers"),
    "groups": ({"metadata": {"attention.head_count_kv": 3}}, "4 query heads cannot share 3"),
    "no-embedding": ({"arrays": _changed(token_embd=None)}, "token_embd.weight is missing"),
    "no-tensor": ({"arrays": _changed(blk__1__ffn_up=None)}, "tensor blk.1.ffn_up.weight is mis"),
    "more-layers": ({"metadata": {"block_count": 3}}, "blk.2.attn_norm.weight and 8 more is mis"),
    "misshapen": (
        {"arrays": _changed(blk__0__attn_k=np.zeros((4, D), np.float32))},
        "attn_k.weight is [4, 64], the metadata asks for [32, 64]",
    ),
    "factors": (
        {"arrays": _changed(rope_freqs=np.ones(8, np.float32))},
        "no use for the tensor 'rope_freqs.weight'",
    ),
    "not-finite": (
        {"arrays": _changed(output_norm=np.full(D, np.nan, np.float32))},
        "output_norm.weight holds numbers that are not finite",
    ),
    "alignment": (
        {"more": lambda writer: writer.add_uint32("general.alignment", 24)},
        "aligns its tensors to 24",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_cannot_be_read_is_one_sentence(fault: str, tmp_path: Path) -> None:
    how, named = FAULTS[fault]
    assert named in _sentence(_write(tmp_path / "model.gguf", **how))


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "is no GGUF file: it has 0 bytes"),
        (b"PK\3\4 and so on", "does not begin with 'GGUF'"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "is GGUF version 1; read are 2 and 3"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "is GGUF version 50331648"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60), "is cut off"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 60), "is cut off"),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"k", 99), "unknown type 99"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 8, 1 << 40), "is cut off"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 9, 1), "a list of the type 9"),
        (b"GGUF" + struct.pack("<IQQQ1s", 3, 0, 1, 1, b"\xff"), "that is no UTF-8"),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 1, 0, 1, b"t", 9), "'t' 9 dimensions"),
        (b"GGUF" + struct.pack("<IQQQ1sIQ", 3, 1, 0, 1, b"t", 1, 0), "'t' the shape [0]"),
    ],
)
def test_a_head_that_cannot_be_is_one_sentence(content: bytes, named: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    assert named in _sentence(path)


def test_a_file_cut_off_anywhere_is_said_to_be(tmp_path: Path) -> None:
    path = _write(tmp_path / "model.gguf", kind="Q8_0")
    whole = path.read_bytes()
    for length in [*range(10, 3000, 173), len(whole) // 2, len(whole) - 1000]:
        path.write_bytes(whole[:length])
        assert "is cut off" in _sentence(path), length


def test_no_damage_is_worse_than_a_sentence(tmp_path: Path) -> None:
    """A byte changed anywhere in the head: the file loads, or one sentence says why not."""
    path = _write(tmp_path / "model.gguf", kind="Q4_1")
    whole, draw, said = path.read_bytes(), random.Random(0), []
    for _ in range(200):
        place = draw.randrange(2400)
        path.write_bytes(whole[:place] + bytes([draw.randrange(256)]) + whole[place + 1 :])
        try:
            gguf_llama.shape(gguf.read(path))
        except UsageError as error:
            said.append(str(error))
    assert len(said) > 50
    assert not any("\n" in sentence for sentence in said)


WORDS = ["a", "b", "1", "2", "\u0120", "ab", "\u0120a", "12", "<|end|>"]


def _with_tokenizer(**changes: Any) -> Callable[[GGUFWriter], None]:
    def add(writer: GGUFWriter) -> None:
        given = {"model": "gpt2", "pre": "smollm", "tokens": WORDS} | changes
        writer.add_tokenizer_model(given["model"])
        if given["pre"] is not None:
            writer.add_tokenizer_pre(given["pre"])
        if given["tokens"]:
            writer.add_token_list(given["tokens"])
        writer.add_token_merges(["a b", "\u0120 a", "1 2"])
        writer.add_token_types([1] * 8 + [3])

    return add


@pytest.mark.parametrize(
    ("split", "ids"), [("smollm", [5, 4, 2, 3, 6, 8]), ("gpt-2", [5, 4, 7, 6, 8]), (None, None)]
)
def test_the_tokenizer_of_a_file(split: str | None, ids: list[int] | None, tmp_path: Path) -> None:
    """Digits stand alone in SmolLM's; a control token is one token and no text."""
    path = _write(tmp_path / "model.gguf", more=_with_tokenizer(pre=split))
    found = source.find(str(path), ())
    assert found.tokenizer == path
    loaded = tokenizer.load(path, found.shape.vocab)
    assert loaded.encode("ab 12 a<|end|>").ids == (ids or [5, 4, 7, 6, 8])
    assert loaded.decode([5, 4, 2, 3, 6, 8]) == "ab 12 a"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model": "llama"}, "the tokenizer is llama; read is gpt2"),
        ({"pre": "tekken"}, "splits text by 'tekken'; read: default, gpt-2, smollm"),
        ({"tokens": []}, "the list tokenizer.ggml.tokens of its tokenizer is missing"),
        ({"tokens": [f"t{n}" for n in range(V + 1)]}, "cannot read the tokenizer"),
        ({"tokens": WORDS + [f"t{n}" for n in range(V)]}, "does not fit a model with a voc"),
    ],
)
def test_a_tokenizer_that_cannot_be_read_is_one_sentence(
    changes: dict[str, Any], named: str, tmp_path: Path
) -> None:
    path = _write(tmp_path / "model.gguf", more=_with_tokenizer(**changes))
    with pytest.raises(UsageError, match=r"model\.gguf") as caught:
        tokenizer.load(path, V)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
