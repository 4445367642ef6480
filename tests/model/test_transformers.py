"""Folders that transformers writes give the logits that transformers computes from them."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from harness import stack as stacks
from harness.engine.build import build
from harness.engine.request import Request
from harness.gates import reference
from harness.model import weights
from harness.model.source import ModelSource, find
from harness.paths import root

# Of the largest logit: what reordering sums may do in float32 (observed: 1e-6).
TOLERANCE = 2e-5
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    # Short, so that every band of frequencies (kept, blended, divided) occurs.
    "original_max_position_embeddings": 64,
}
_LATENT = {
    "kv_lora_rank": 12,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 6,
    "v_head_dim": 10,
    "first_k_dense_replace": 2,
    "num_key_value_heads": 4,
}
_GEMMA = {
    "num_key_value_heads": 2,
    "head_dim": 24,
    # No head's dimension, and caps that bend what these weights give.
    "query_pre_attn_scalar": 40,
    "sliding_window": 8,
    "attn_logit_softcapping": 1.5,
    "final_logit_softcapping": 2.0,
}
# Our architecture, transformers' type, and what the config says.
CONFIGS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mha": ("mha", "llama", {"num_key_value_heads": 4}),
    "gqa-tied": ("gqa", "llama", {"num_key_value_heads": 2, "tie_word_embeddings": True}),
    "mqa-wide-heads": ("gqa", "llama", {"num_key_value_heads": 1, "head_dim": 24}),
    "llama3-rope": (
        "gqa",
        "llama",
        {"num_key_value_heads": 2, "rope_parameters": {"rope_theta": 5e5, **_LLAMA3}},
    ),
    "loud-eps": ("mha", "llama", {"num_key_value_heads": 4, "rms_norm_eps": 0.05}),
    "mistral": ("gqa", "mistral", {"num_key_value_heads": 2, "sliding_window": 8}),
    "gemma2": ("gqa", "gemma2", _GEMMA),
    "gemma2-uncapped": (
        "gqa",
        "gemma2",
        {**_GEMMA, "attn_logit_softcapping": None, "final_logit_softcapping": None},
    ),
    "gemma3": ("gqa", "gemma3_text", {**_GEMMA, "sliding_window_pattern": 2}),
    "gemma3-stretched": (
        "mha",
        "gemma3_text",
        {
            **_GEMMA,
            "num_key_value_heads": 4,
            "layer_types": ["full_attention", "sliding_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5},
                "sliding_attention": {"rope_type": "default", "rope_theta": 2e3},
            },
        },
    ),
    "deepseek-v2": ("mla", "deepseek_v2", {**_LATENT, "q_lora_rank": 14}),
    "deepseek-v2-lite": ("mla", "deepseek_v2", {**_LATENT, "q_lora_rank": None}),
    "deepseek-v3": ("mla", "deepseek_v3", {**_LATENT, "q_lora_rank": 14}),
    "mamba": (
        "mamba",
        "mamba",
        {"state_size": 5, "conv_kernel": 4, "expand": 2, "time_step_rank": 6},
    ),
    "jamba": (
        "hybrid",
        "jamba",
        {
            "num_key_value_heads": 2,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "num_experts": 1,
            "num_experts_per_tok": 1,
            "mamba_d_state": 5,
            "mamba_dt_rank": 6,
            "use_mamba_kernels": False,
        },
    ),
    "deepseek-v3-halves": (
        "mla",
        "deepseek_v3",
        {**_LATENT, "q_lora_rank": 14, "rope_interleave": False},
    ),
}
PROMPTS = [tuple(range(3, 24)), (5,), (60, 2, 2, 9, 31, 7, 40)]
NEW = 12


@pytest.fixture(scope="module", params=CONFIGS)
def checkpoint(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, Any]:
    """An architecture's name, a folder, and the transformers model that was saved there."""
    with warnings.catch_warnings():
        # What its own imports deprecate is no concern of ours.
        warnings.simplefilter("ignore")
        from transformers import AutoConfig, AutoModelForCausalLM

    architecture, kind, changes = CONFIGS[request.param]
    settings = {
        "vocab_size": 67,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 128,
        "initializer_range": 0.15,
        "attn_implementation": "eager",
    }
    torch.manual_seed(1)
    config = AutoConfig.for_model(kind, **settings | changes)
    model = AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
    folder = tmp_path_factory.mktemp(request.param)
    model.save_pretrained(folder)
    return architecture, folder, model


def _theirs(model: Any, tokens: list[int]) -> Tensor:
    """Logits [T, V] of tokens [T]."""
    with torch.inference_mode():
        logits: Tensor = model(torch.tensor([tokens])).logits[0]
    return logits


def test_engine_gives_their_logits(checkpoint: tuple[str, Path, Any]) -> None:
    """Ragged prompts and then one token a step, teacher-forced by the engine's own choice."""
    architecture, folder, model = checkpoint
    source = find(str(folder), [architecture])
    assert source.kind == "trained"
    plan = stacks.resolve(
        stacks.parse(architecture), source, dtype="float32", backend="torch", slots=3, max_tokens=40
    )
    engine = build(plan, source)
    seen: dict[int, list[Tensor]] = {i: [] for i in range(len(PROMPTS))}
    engine.observer = lambda request, place, logits: seen[request].append(logits.clone())
    tokens = [list(prompt) for prompt in PROMPTS]
    for i, prompt in enumerate(PROMPTS):
        engine.submit(Request(i, prompt, NEW))
    while engine.has_work:
        for emission in engine.step():
            tokens[emission.request_id] += emission.token_ids
    for i, prompt in enumerate(PROMPTS):
        theirs = _theirs(model, tokens[i][:-1])[len(prompt) - 1 :]
        ours = torch.cat(seen[i])
        assert (ours - theirs).abs().max() <= TOLERANCE * theirs.abs().max()
        assert theirs.argmax(-1).tolist() == tokens[i][len(prompt) :]


def test_reference_gives_their_logits(checkpoint: tuple[str, Path, Any]) -> None:
    """Also in float64, where nothing but their rope table, made in float32, differs."""
    architecture, folder, model = checkpoint
    source: ModelSource = find(str(folder), [architecture])
    stack = stacks.parse(architecture)
    plan = stacks.resolve(stack, source, dtype="float32", backend="torch", slots=1, max_tokens=40)
    loaded = weights.load(source, source.shape, torch.float32, "cpu")
    tokens = [int(t) for t in torch.randint(67, (40,), generator=torch.Generator().manual_seed(4))]
    ours = reference.logits(stack, plan, loaded, torch.tensor(tokens), torch.float64)
    for theirs in (_theirs(model, tokens), _theirs(model.double(), tokens)):
        assert (ours - theirs).abs().max() <= TOLERANCE * theirs.abs().max()
    model.float()


def test_transformers_imports_beside_our_kernels_folder() -> None:
    """transformers imports whatever `kernels` it finds, and ours is a folder of that name: from
    the root it must be at most an empty namespace, and no package where workers start."""
    imports = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from transformers import LlamaForCausalLM as model\n"
        "print(model.__name__)\n"
    )
    finds = "from importlib.util import find_spec as f; print(f('kernels') and f('kernels').origin)"
    assert _from_the_root("-c", imports + finds) == "LlamaForCausalLM\nNone\n"
    packages = "from importlib.util import find_spec as f; print(f('kernels'), f('techniques'))"
    assert _from_the_root("-P", "-c", packages) == "None None\n"


def _from_the_root(*arguments: str) -> str:
    """What Python prints that is started in the checkout's folder."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=root(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
