"""Checkpoints and configs: what is read, and one sentence for each that cannot be."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from harness import registry
from harness.errors import UsageError
from harness.model import config, source, weights
from harness.model.layout import tensors
from harness.shape import RopeScaling
from tests.conftest import MakePlugin
from tests.model.llama_config import CONFIG, SHAPE

_D, _F, _V, _Q, _KV = 8, 12, 11, 8, 4
LAYER = {
    "input_layernorm": (_D,),
    "self_attn.q_proj": (_Q, _D),
    "self_attn.k_proj": (_KV, _D),
    "self_attn.v_proj": (_KV, _D),
    "self_attn.o_proj": (_D, _Q),
    "post_attention_layernorm": (_D,),
    "mlp.gate_proj": (_F, _D),
    "mlp.up_proj": (_F, _D),
    "mlp.down_proj": (_D, _F),
}
LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}


def _tensors() -> dict[str, torch.Tensor]:
    sizes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (_V, _D),
        "model.norm.weight": (_D,),
        "lm_head.weight": (_V, _D),
    }
    for layer in range(2):
        sizes |= {f"model.layers.{layer}.{name}.weight": size for name, size in LAYER.items()}
    return {name: torch.randn(size) for name, size in sizes.items()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint that loads."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    save_file(_tensors(), tmp_path / "model.safetensors")
    return tmp_path


def _load(folder: Path) -> dict[str, torch.Tensor]:
    found = source.find(str(folder), ["gqa"])
    return weights.load(found, found.shape, torch.float32, "cpu")


def _sentence(folder: Path) -> str:
    """The one line that loading ends with."""
    with pytest.raises(UsageError) as caught:
        _load(folder)
    text = str(caught.value)
    assert "\n" not in text
    assert str(folder) in text
    return text


def _edit(folder: Path, **changes: Any) -> None:
    """Change keys of config.json; None takes a key out."""
    content = CONFIG | changes
    kept = {key: value for key, value in content.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(kept))


def test_a_good_checkpoint_loads(folder: Path) -> None:
    found = source.find(str(folder), ["gqa"])
    assert found.shape == SHAPE
    assert (found.kind, found.eos, found.tokenizer) == ("trained", 3, None)
    loaded = _load(folder)
    assert {name: tuple(t.shape) for name, t in loaded.items()} == tensors(SHAPE)


def test_shards_are_read_together_and_more_than_asked_is_ignored(folder: Path) -> None:
    whole = _load(folder)
    tensors = _tensors()
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    save_file({n: tensors[n] for n in names[:5]}, folder / "model-1.safetensors")
    rest = {n: tensors[n] for n in names[5:]} | {"model.rotary.inv_freq": torch.ones(2)}
    save_file(rest, folder / "model-2.safetensors")
    assert _load(folder).keys() == whole.keys()


def test_the_hash_names_the_weights(folder: Path) -> None:
    first = source.find(str(folder), ["gqa"]).checkpoint_hash
    assert source.find(str(folder), ["gqa"]).checkpoint_hash == first
    save_file(_tensors(), folder / "model.safetensors")
    assert source.find(str(folder), ["gqa"]).checkpoint_hash != first


def test_a_broken_plugin_stops_no_checkpoint(folder: Path, make_plugin: MakePlugin) -> None:
    """Every technique is asked for its families, those of plugins too."""
    registry.install([make_plugin(code="raise RuntimeError('broken')")])
    assert source.find(str(folder), ["gqa"]).kind == "trained"


@pytest.mark.parametrize("key", ["rms_norm_eps", "rope_theta", "eos_token_id"])
def test_the_hash_names_what_the_weights_are_computed_by(folder: Path, key: str) -> None:
    """An edited config kept the series of the model that it no longer was."""
    first = source.find(str(folder), ["gqa"]).checkpoint_hash
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {key: 5}))
    assert source.find(str(folder), ["gqa"]).checkpoint_hash != first


def test_the_hash_names_the_tokenizer(folder: Path) -> None:
    first = source.find(str(folder), ["gqa"]).checkpoint_hash
    (folder / "tokenizer.json").write_text("{}")
    assert source.find(str(folder), ["gqa"]).checkpoint_hash != first


def test_weights_become_the_dtype_that_is_asked_for(folder: Path) -> None:
    found = source.find(str(folder), ["gqa"])
    loaded = weights.load(found, found.shape, torch.bfloat16, "cpu")
    assert {t.dtype for t in loaded.values()} == {torch.bfloat16}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"tie_word_embeddings": True}, {"tied": True}),
        ({"num_key_value_heads": None}, {"kv_heads": 2}),
        ({"head_dim": None}, {"head_dim": 4}),
        ({"rope_theta": None, "rope_parameters": {"rope_theta": 7.0}}, {"theta": 7.0}),
        ({"rope_scaling": {"rope_type": "default"}}, {}),
        (
            {"rope_scaling": {"rope_type": "llama3", **LLAMA3}},
            {"rope_scaling": RopeScaling(8.0, 1.0, 4.0, 16)},
        ),
        (
            {"rope_parameters": {"rope_type": "llama3", "rope_theta": 9.0, **LLAMA3}},
            {"rope_scaling": RopeScaling(8.0, 1.0, 4.0, 16), "theta": 9.0},
        ),
    ],
    ids=["tied", "mha", "head-dim", "new-theta", "default-rope", "old-llama3", "new-llama3"],
)
def test_both_forms_of_a_config_are_read(
    folder: Path, changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    _edit(folder, **changes)
    assert config.read(folder).shape == replace(SHAPE, **expected)


def test_the_first_of_several_end_tokens_counts(folder: Path) -> None:
    _edit(folder, eos_token_id=[5, 6])
    assert config.read(folder).eos == 5


def _missing(folder: Path) -> str:
    tensors = _tensors()
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors")
    return "model.layers.1.mlp.up_proj.weight"


def _misshapen(folder: Path) -> str:
    tensors = _tensors()
    tensors["model.layers.0.self_attn.k_proj.weight"] = torch.zeros(8, 8)
    save_file(tensors, folder / "model.safetensors")
    return "model.layers.0.self_attn.k_proj.weight is [8, 8], the config asks for [4, 8]"


def _integers(folder: Path) -> str:
    """Read as if they were the weights themselves, they gave a case its times and green gates."""
    tensors = _tensors()
    name = "model.layers.0.self_attn.k_proj.weight"
    tensors[name] = tensors[name].to(torch.int8)
    save_file(tensors, folder / "model.safetensors")
    return f"tensor {name} holds torch.int8; a quantised checkpoint is not read"


def _truncated(folder: Path) -> str:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    return "model.safetensors"


def _empty(folder: Path) -> str:
    (folder / "model.safetensors").write_bytes(b"")
    return "model.safetensors"


def _no_weights(folder: Path) -> str:
    (folder / "model.safetensors").unlink()
    return "no .safetensors file"


def _dangling(folder: Path) -> str:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to(folder / "gone")
    return "no .safetensors file"


def _no_config(folder: Path) -> str:
    (folder / "config.json").unlink()
    return "no config.json"


def _text(text: str | bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        data = text if isinstance(text, bytes) else text.encode()
        (folder / "config.json").write_bytes(data)

    return write


def _with(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: _edit(folder, **changes)


FAULTS: dict[str, tuple[Callable[[Path], Any], str | None]] = {
    "missing-tensor": (_missing, None),
    "misshapen-tensor": (_misshapen, None),
    "integers": (_integers, None),
    "truncated-file": (_truncated, None),
    "empty-file": (_empty, None),
    "no-weights": (_no_weights, None),
    "link-to-nothing": (_dangling, None),
    "no-config": (_no_config, None),
    "not-json": (_text("{'vocab': 3\n}"), "not JSON: line 1"),
    "not-text": (_text(b"\xff\xfe{}"), "config.json"),
    "not-an-object": (_text("[1, 2]"), "config.json"),
    "other-family": (_with(architectures=["GPT2LMHeadModel"]), "GPT2LMHeadModel"),
    "no-family": (_with(architectures=None), "none named"),
    "family-is-a-word": (_with(architectures="LlamaForCausalLM"), "architectures"),
    "bias": (_with(attention_bias=True), "attention_bias"),
    "other-activation": (_with(hidden_act="gelu"), "hidden_act"),
    "missing-key": (_with(hidden_size=None), "hidden_size"),
    "missing-rope-key": (
        _with(rope_scaling={"rope_type": "llama3", "factor": 2.0}),
        "low_freq_factor",
    ),
    "unknown-rope": (_with(rope_scaling={"type": "yarn", "factor": 2.0}), "yarn"),
    "rope-is-a-number": (_with(rope_scaling=3), "rope_scaling"),
    "size-is-a-word": (_with(hidden_size="8"), "hidden_size"),
    "size-is-nothing": (_with(num_attention_heads=0), "num_attention_heads"),
    "size-is-negative": (_with(vocab_size=-11), "vocab_size"),
    "size-is-a-fraction": (_with(intermediate_size=1.5), "intermediate_size"),
    "eps-is-a-word": (_with(rms_norm_eps="small"), "rms_norm_eps"),
    "odd-heads": (_with(head_dim=5), "head_dim"),
    "uneven-groups": (_with(num_attention_heads=3, num_key_value_heads=2), "num_key_value_heads"),
    "end-token-is-a-word": (_with(eos_token_id="</s>"), "eos_token_id"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_checkpoint_is_one_sentence_that_names_the_fault(folder: Path, fault: str) -> None:
    break_it, named = FAULTS[fault]
    named = break_it(folder) or named
    assert named is not None
    assert named in _sentence(folder)


def test_weights_that_may_not_be_read_are_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planning a sweep with another user's checkpoint ended in a traceback."""

    plain = Path.open

    def refuse(path: Path, *rest: Any, **named: Any) -> Any:
        if path.suffix == ".safetensors":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return plain(path, *rest, **named)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UsageError, match=r"model\.safetensors cannot be read: Permission denied"):
        source.find(str(folder), ())


def test_many_missing_tensors_are_counted(folder: Path) -> None:
    save_file({"model.norm.weight": torch.ones(_D)}, folder / "model.safetensors")
    assert "and 19 more" in _sentence(folder)
