"""A trained network as a folder in the HuggingFace layout, and back."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from harness.errors import UsageError
from harness.zoo import network, tokenizer
from harness.zoo.table import LLAMA, Architecture, Storage

MODELS = Path(__file__).parent / "models"
# HuggingFace puts the decoder under this name; the tied head is not written.
PREFIX = "model."
# What weights may be stored in; they are trained, and computed with, in float32.
DTYPES = {"float32": torch.float32, "float16": torch.float16}


def write(
    folder: Path,
    net: network.Network,
    storage: Storage = "float32",
    tokenizer_path: Path | None = tokenizer.PATH,
) -> None:
    """Write config, weights and tokenizer into `folder`.

    Weights are rounded to the dtype named by `storage` on the way. What the engine cannot run has
    no config, so no loader mistakes it for another; what learned a task has no tokenizer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, dict[str, Any]] = {}
    if net.architecture.checkpoint_class is not None:
        files["config.json"] = config(net.architecture, storage, text=tokenizer_path is not None)
    if tokenizer_path is not None:
        files["generation_config.json"] = {
            "bos_token_id": tokenizer.BOS_ID,
            "eos_token_id": tokenizer.EOS_ID,
            "do_sample": False,
        }
        files["tokenizer_config.json"] = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": tokenizer.BOS,
            "eos_token": tokenizer.EOS,
            "clean_up_tokenization_spaces": False,
            "model_max_length": net.architecture.max_len,
        }
        shutil.copyfile(tokenizer_path, folder / "tokenizer.json")
    for name, content in files.items():
        text = json.dumps(content, indent=2) + "\n"
        (folder / name).write_text(text, encoding="utf-8")
    weights = folder / "model.safetensors"
    kept = {name: tensor.to(DTYPES[storage]) for name, tensor in tensors(net).items()}
    save_file(kept, weights, metadata={"format": "pt"})
    # safetensors keeps the mode of its temporary file, which only the owner can read.
    weights.chmod(0o644)


def tensors(net: network.Network) -> dict[str, Tensor]:
    """The weights under HuggingFace's names."""
    return {PREFIX + name: weight.detach() for name, weight in net.named_parameters()}


def config(
    architecture: Architecture, storage: Storage = "float32", *, text: bool = True
) -> dict[str, Any]:
    """The config of an architecture that learned text or a task, whose sequences do not end:
    Llama's keys, and what the project's own classes add to them.

    Raises UsageError for layers that the engine does not have.
    """
    a = architecture
    name = a.checkpoint_class
    if name is None:
        raise UsageError(
            f"layers of {', '.join(a.mixers)} have no checkpoint class; 'attention' and "
            "'conv-attention' have one"
        )
    own = {"conv_kernel": network.CONV_WIDTH} if "conv-attention" in a.mixers else {}
    return {
        "architectures": [name],
        "model_type": "llama" if name == LLAMA else "harness-zoo",
        "vocab_size": a.vocab,
        "hidden_size": a.width,
        "intermediate_size": a.ff,
        "num_hidden_layers": a.layers,
        "num_attention_heads": a.heads,
        "num_key_value_heads": a.kv_heads,
        "head_dim": a.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": a.max_len,
        "rms_norm_eps": a.eps,
        "rope_theta": a.theta,
        "rope_scaling": None,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": tokenizer.BOS_ID,
        "eos_token_id": tokenizer.EOS_ID if text else None,
        "torch_dtype": storage,
        "use_cache": True,
        **own,
    }


def weights_file(folder: Path) -> Path:
    """The weights of a model's folder; UsageError where there are none."""
    path = folder / "model.safetensors"
    if not path.is_file():
        raise UsageError(f"no weights at '{path}'; `python -m harness.zoo train` writes them")
    return path


def read(folder: Path, architecture: Architecture) -> network.Network:
    """Load exported weights; UsageError for a file that is missing, broken or of other shapes."""
    path = weights_file(folder)
    try:
        loaded = load_file(path)
    except SafetensorError as error:
        raise UsageError(f"the weights '{path}' cannot be read: {error}") from error
    net = network.Network(architecture)
    wanted = {name: tuple(weight.shape) for name, weight in tensors(net).items()}
    found = {name: tuple(weight.shape) for name, weight in loaded.items()}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise UsageError(
                f"the weights '{path}' do not fit: tensor '{name}' is {found.get(name)} in the "
                f"file and {wanted.get(name)} in the model"
            )
    with torch.no_grad():
        for name, weight in net.named_parameters():
            weight.copy_(loaded[PREFIX + name])
    return net
