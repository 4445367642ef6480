"""The committed recall and needle models do what they were trained for, and show what they are for:
the short convolution, a window and coarse keys and values each make a difference."""

from typing import Any

import pytest
import torch

from harness import stack as stacks
from harness.model import source, weights
from harness.quality import forced
from harness.quality.forced import Text
from harness.zoo import accuracy, card, export, material, network, rows, tasks

# A seed of neither training nor card.
SEED = 11


@pytest.mark.parametrize(("name", "pairs"), [("recall8-conv", 8), ("recall16-conv", 16)])
def test_attention_behind_a_convolution_recalls(name: str, pairs: int) -> None:
    found = accuracy.recall_accuracy(name, pairs, SEED, sequences=64)
    assert found > 0.98
    told = card.read_any(export.MODELS / name)
    assert isinstance(told, card.TaskCard)
    assert told.accuracy[f"{pairs} pairs"] > 0.98
    assert told.accuracy[f"{pairs} pairs"] == pytest.approx(found, abs=0.02)


@pytest.mark.parametrize(("name", "pairs"), [("recall8-mha", 8), ("recall16-mha", 16)])
def test_attention_alone_does_not_recall_after_as_many_steps(name: str, pairs: int) -> None:
    beside = rows.get(name.replace("mha", "conv"))
    assert rows.get(name).budget == beside.budget
    assert accuracy.recall_accuracy(name, pairs, SEED, sequences=64) < 0.5


@pytest.mark.parametrize("cache", ["contiguous", "paged", "recompute"])
@pytest.mark.parametrize("name", ["recall8-conv", "recall8-mha"])
def test_the_engine_computes_the_network_that_was_trained(name: str, cache: str) -> None:
    """Token by token under any cache: what the convolution still sees is part of the state."""
    found = source.find(f"zoo/{name}", ())
    plan = stacks.resolve(
        stacks.completed(stacks.parse(cache), found),
        found, dtype="float32", backend="torch", slots=2, max_tokens=33,
    )  # fmt: skip
    entry = rows.get(name)
    assert isinstance(entry.task, tasks.Recall)
    prompts = tasks.recall_prompts(entry.task, 2, SEED)
    texts = [Text(prompt.tokens[: 20 + i], 1 + 6 * i) for i, prompt in enumerate(prompts)]
    loaded = weights.load(found, plan.shape, torch.float32, "cpu")
    decided = forced.reader(plan, loaded, "cpu").read(texts)
    net = export.read(export.MODELS / name, entry.architecture)
    for text, logits in zip(texts, decided, strict=True):
        with torch.inference_mode():
            wanted = net(torch.tensor([text.tokens]))[0, text.fed - 1 : -1]
        assert (logits - wanted).abs().max() <= 2e-5 * wanted.abs().max()


def needle_accuracy(
    net: network.Network, task: tasks.Needle, distance: int, window: int | None = None
) -> float:
    """Accuracy over 24 prompts, of which the model is shown the last `window` tokens."""
    prompts = tasks.needle_prompts(task, 24, SEED, distance)
    tokens = torch.tensor([prompt.tokens for prompt in prompts])[:, -(window or 0) :]
    answers = torch.full_like(tokens, tasks.NO_ANSWER)
    answers[:, -1] = torch.tensor([prompt.answer for prompt in prompts])
    found = material.answered(net, tokens, answers).accuracy
    assert found is not None
    return found


def load(name: str) -> tuple[network.Network, tasks.Needle]:
    entry = rows.get(name)
    assert isinstance(entry.task, tasks.Needle)
    return export.read(export.MODELS / name, entry.architecture), entry.task


@pytest.mark.parametrize(("name", "distance"), [("needle256", 200), ("needle1024", 500)])
def test_a_window_shorter_than_the_distance_loses_the_needle(name: str, distance: int) -> None:
    net, task = load(name)
    assert needle_accuracy(net, task, distance, window=distance + 8) > 0.9
    assert needle_accuracy(net, task, distance, window=distance // 2) < 0.3


def test_coarse_keys_and_values_lose_the_needle_and_fine_ones_do_not() -> None:
    net, task = load("needle256")

    def rounding(bits: int) -> Any:
        def hook(module: torch.nn.Module, inputs: Any, out: torch.Tensor) -> torch.Tensor:
            heads = out.view(*out.shape[:-1], -1, net.architecture.head_dim)
            step = heads.abs().amax(-1, keepdim=True) / float(2 ** (bits - 1) - 0.5)
            return (((heads / step - 0.5).round() + 0.5) * step).flatten(-2)

        return hook

    projections = [
        module for name, module in net.named_modules() if name.endswith(("k_proj", "v_proj"))
    ]
    assert len(projections) == 4

    found = {}
    for bits in (8, 2):
        hooks = [module.register_forward_hook(rounding(bits)) for module in projections]
        found[bits] = needle_accuracy(net, task, distance=256)
        for handle in hooks:
            handle.remove()
    assert found[8] > 0.9
    assert found[2] < found[8] - 0.08
