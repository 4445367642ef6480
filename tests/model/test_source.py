"""Models by name: presets, families of the zoo, its members, and random weights."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from harness import stack as stacks
from harness.errors import UnfitError, UsageError
from harness.model import source, weights
from harness.model.layout import layout, tensors
from harness.model.presets import PRESETS
from tests.model.llama_config import CONFIG, SHAPE


@pytest.mark.parametrize(
    ("name", "millions"),
    # Released: 13.0e9, 8.03e9, 1.24e9 and 42e6.
    [
        ("llama-2-13b", 13_016),
        ("llama-3-8b", 8_030),
        ("llama-3.2-1b", 1_236),
        ("stories-42m", 42),
    ],
)
def test_presets_have_the_published_number_of_parameters(name: str, millions: int) -> None:
    total = 0
    for size in tensors(PRESETS[name]).values():
        numbers = 1
        for n in size:
            numbers *= n
        total += numbers
    assert round(total / 1e6) == millions


def test_a_token_of_llama_2_13b_holds_the_published_bytes() -> None:
    """40 layers, keys and values of 40 heads of 128 in 16 bits: 819,200 bytes."""
    groups, recurrent, _ = layout(PRESETS["llama-2-13b"])
    assert sum(group.entry_numbers for group in groups) * 2 == 819_200
    assert recurrent == []


def test_a_shape_without_feed_forward_has_none_of_its_tensors() -> None:
    names = tensors(replace(SHAPE, ff=0, tied=True))
    assert not {name for name in names if "gate" in name or "norm2" in name or name == "head"}


def test_random_weights_are_seeded_and_equal_in_every_dtype() -> None:
    one, same, other = (weights.random(SHAPE, torch.float32, "cpu", seed) for seed in (1, 1, 2))
    half = weights.random(SHAPE, torch.bfloat16, "cpu", 1)
    for name, tensor in one.items():
        assert torch.equal(tensor, same[name])
        assert torch.equal(tensor.bfloat16(), half[name])
        assert tensor.ndim == 1 or not torch.equal(tensor, other[name])


def test_names_are_found_and_others_get_the_closest() -> None:
    assert source.find("tiny", []).kind == "random"
    with pytest.raises(UsageError, match="did you mean 'llama-3-8b'"):
        source.find("llama3-8b", [])
    with pytest.raises(UsageError, match="neither a known name nor a folder"):
        source.find("no/such/folder", [])


def test_a_family_answers_by_architecture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    zoo = tmp_path / "zoo"
    for member, kv_heads in (("small-mha", 2), ("small-gqa", 1)):
        (zoo / member).mkdir(parents=True)
        (zoo / member / "config.json").write_text(
            json.dumps(CONFIG | {"num_key_value_heads": kv_heads})
        )
        save_file({"x": torch.ones(1)}, zoo / member / "model.safetensors")
    monkeypatch.setattr(source, "_ZOO", zoo)
    assert source.families() == ["zoo/small"]
    assert source.names()[:3] == ["zoo/small", "zoo/small-gqa", "zoo/small-mha"]
    assert source.find("zoo/small", ["gqa"]).name == "zoo/small-gqa"
    assert source.find("zoo/small", ["local", "mha"]).shape.kv_heads == 2
    # A member takes any stack here; whether the stack fits it is for planning to say.
    assert source.find("zoo/small-mha", ["gqa"]).name == "zoo/small-mha"
    with pytest.raises(UsageError, match="no member for mamba; it has: gqa, mha"):
        source.find("zoo/small", ["mamba"])
    with pytest.raises(UsageError, match="did you mean 'zoo/small"):
        source.find("zoo/smal", ["mha"])


@pytest.mark.parametrize("name", source.members())
def test_members_that_ship_load(name: str) -> None:
    found = source.find(name, [name.rsplit("-", 1)[-1]])
    assert found.checkpoint_hash is not None
    loaded = weights.load(found, found.shape, torch.float32, "cpu")
    assert all(bool(torch.isfinite(t).all()) for t in loaded.values())
    # A model of a synthetic task knows no text.
    assert (found.tokenizer is None) == name.startswith(("zoo/needle", "zoo/recall"))
    family = source.find(name.rsplit("-", 1)[0], [name.rsplit("-", 1)[-1]])
    assert family == found


def test_layers_of_a_checkpoints_own_are_not_called_attention() -> None:
    found = source.find("zoo/recall8-conv", ())
    with pytest.raises(UnfitError, match=r"trained with .*ConvAttention"):
        stacks.resolve(
            stacks.parse("mha"), found, dtype="float32", backend="torch", slots=1, max_tokens=8
        )


def test_a_convolution_without_its_width_is_one_sentence(tmp_path: Path) -> None:
    found = source.find("zoo/recall8-conv", ())
    assert found.folder is not None
    config = json.loads((found.folder / "config.json").read_text())
    del config["conv_kernel"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match="conv_kernel") as raised:
        source.find(str(tmp_path), ())
    assert "\n" not in str(raised.value)
