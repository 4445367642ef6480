"""Enlarged models compute their source's distribution at their own shape's cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from harness import stack as stacks
from harness import worker
from harness.engine.build import build
from harness.engine.request import Request
from harness.errors import UnfitError, UsageError
from harness.model import inflate, presets, source, weights
from harness.model.layout import tensors
from harness.model.presets import INFLATED, PRESETS, Inflation
from harness.shape import ModelShape
from harness.suite.case import Case, GateSettings, MeasureSettings
from harness.suite.points import GeneratePoint
from harness.worker.job import Job

SMALL = ModelShape(
    vocab=61, width=16, layers=2, heads=4, kv_heads=2, head_dim=8, ff=24, tied=True, max_len=64
)
RECIPE = Inflation("small", width=64, layers=5, kv_heads=4, ff=80)
# Of zoo/small-gqa, 4 layers of width 256, so that a test can run it.
LITTLE = Inflation("zoo/small-gqa", width=512, layers=5, kv_heads=3, ff=800)


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> str:
    """A model of the tests, enlarged from the trained one that ships."""
    monkeypatch.setitem(presets.INFLATED, "inflated-little", LITTLE)
    return "inflated-little"


def _small() -> dict[str, Tensor]:
    # Logits of random weights differ by ten and more: divergences are those of a sharp model.
    return weights.random(SMALL, torch.float32, "cpu", seed=3)


def _build(recipe: Inflation = RECIPE, dtype: torch.dtype = torch.float32) -> inflate.Inflated:
    large = recipe.shape("large", SMALL)
    return inflate.build("large", recipe, _small(), SMALL, tensors(large), dtype)


def test_the_enlarged_model_computes_the_sources_logits() -> None:
    built = _build(replace(RECIPE, noise=1e-5))
    large, small, ids = RECIPE.shape("large", SMALL), _small(), torch.arange(40) % SMALL.vocab
    found = inflate.logits(large, built.tensors.__getitem__, ids)
    exact = inflate.logits(SMALL, small.__getitem__, ids)
    assert (found - exact).abs().max() < 1e-3 * exact.abs().max()
    assert built.divergence.mean < 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_block_is_zero_and_the_source_stands_at_the_top_left(dtype: torch.dtype) -> None:
    recipe = replace(RECIPE, noise=1e-4)
    built, small = _build(recipe, dtype).tensors, _small()
    places = recipe.places(SMALL)
    assert set(built) == set(tensors(recipe.shape("large", SMALL)))
    for name, tensor in built.items():
        assert tensor.dtype == dtype
        # Blocks of eight by eight, as sparse kernels skip them.
        grid = tensor[None] if tensor.ndim == 1 else tensor
        for rows in torch.split(grid, 8):
            assert all(bool((block != 0).any()) for block in torch.split(rows, 8, 1)), name
        layer, _, part = name.rpartition(".")
        inner = name if not layer else f"{places.get(int(layer))}.{part}"
        if inner in small and tensor.ndim == 2:
            height, width = small[inner].shape
            assert torch.equal(tensor[:height, :width], small[inner].to(dtype)), name
    assert sorted(places.values()) == [0, 1]


def _without_the_root(get: inflate.Get) -> inflate.Get:
    """Norms of the large model as they are in the small one."""

    def broken(name: str) -> Tensor:
        tensor = get(name)
        return tensor if tensor.ndim > 1 else tensor * math.sqrt(RECIPE.width / SMALL.width)

    return broken


def _rows_moved(get: inflate.Get) -> inflate.Get:
    """Query heads beside another key/value head than their own."""
    return lambda name: get(name).roll(SMALL.head_dim, 0) if name.endswith(".q") else get(name)


@pytest.mark.parametrize("twin", [_without_the_root, _rows_moved])
def test_an_enlargement_that_is_wrong_is_refused(
    twin: Callable[[inflate.Get], inflate.Get], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = inflate.enlarger
    monkeypatch.setattr(inflate, "enlarger", lambda *given: twin(right(*given)))
    with pytest.raises(inflate.InflationError, match="nats a token from small, more than"):
        _build(replace(RECIPE, noise=1e-5))


@pytest.mark.parametrize("noise", [0.3, math.nan])
def test_noise_that_drowns_the_source_is_refused(noise: float) -> None:
    with pytest.raises(inflate.InflationError, match="its distribution is not its source's"):
        _build(replace(RECIPE, noise=noise))


def test_divergence_is_the_textbooks() -> None:
    """p = (3/4, 1/4) against uniform: log 2 less the entropy of p."""
    found = inflate.divergence(torch.tensor([[math.log(3), 0.0]]), torch.zeros(1, 2))
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert found.mean == pytest.approx(math.log(2) - entropy)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"width": 8}, "'large' has width 8, and small has 16"),
        ({"layers": 1}, "'large' has layers 1, and small has 2"),
        ({"kv_heads": 1}, "'large' has kv_heads 1, and small has 2"),
        ({"ff": 20}, "'large' has ff 20, and small has 24"),
    ],
)
def test_a_shape_that_cannot_hold_its_source_is_one_sentence(
    changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        replace(RECIPE, **changes).shape("large", SMALL)
    with pytest.raises(UsageError, match="whose layers are no Llama's"):
        RECIPE.shape("large", replace(SMALL, kv_share=2))


@pytest.mark.parametrize("name", INFLATED)
def test_a_preset_is_an_enlarged_shape_of_its_own(name: str) -> None:
    found = source.find(name, ())
    base = source.find(INFLATED[name].source, ())
    assert (found.name, found.kind, found.folder) == (name, "inflated", None)
    assert found.checkpoint_hash not in (None, base.checkpoint_hash)
    assert found.shape not in PRESETS.values()
    same = ("vocab", "head_dim", "theta", "rope_scaling", "tied", "max_len")
    assert {f: getattr(found.shape, f) for f in same} == {f: getattr(base.shape, f) for f in same}
    assert found.shape.heads * base.shape.kv_heads == found.shape.kv_heads * base.shape.heads
    # Roots that norms are scaled by round nothing in 16 bits.
    assert math.sqrt(found.shape.width / base.shape.width) in (1, 2, 4)
    parameters = sum(math.prod(size) for size in tensors(found.shape).values())
    billions = float(name.removeprefix("inflated-")[:-1]) / {"m": 1000, "b": 1}[name[-1]]
    assert parameters / 1e9 == pytest.approx(billions, rel=0.02)


def test_the_hash_names_source_and_recipe() -> None:
    one = RECIPE.checkpoint_hash("a")
    assert one == replace(RECIPE).checkpoint_hash("a")
    assert one != RECIPE.checkpoint_hash("b")
    assert one != replace(RECIPE, noise=2e-3).checkpoint_hash("a")


def test_a_source_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(presets.INFLATED, "inflated-x", replace(LITTLE, source="zoo/gone"))
    with pytest.raises(UsageError, match="'inflated-x' is zoo/gone enlarged: unknown model"):
        source.find("inflated-x", ())


def _text(model: str) -> list[int]:
    found = source.find(model, ())
    spec = stacks.parse("gqa")
    plan = stacks.resolve(spec, found, dtype="float32", backend="torch", slots=1, max_tokens=40)
    engine = build(plan, found)
    engine.submit(Request(0, tuple(range(200, 216)), 24))
    emitted: list[int] = []
    while engine.has_work:
        emitted += [token for each in engine.step() for token in each.token_ids]
    return emitted


def test_the_engine_says_the_sources_text(little: str) -> None:
    assert _text(little) == _text("zoo/small-gqa")


def test_only_its_own_architecture_fits(little: str) -> None:
    found = source.find(little, ["mha"])
    with pytest.raises(UnfitError, match="'inflated-little' were trained"):
        stacks.resolve(
            stacks.parse("mha"), found, dtype="float32", backend="torch", slots=1, max_tokens=8
        )


def test_a_run_keeps_the_divergence_beside_its_numbers(little: str) -> None:
    found = source.find(little, ())
    case: dict[str, Any] = {
        "stack": stacks.parse("gqa"),
        "model": little,
        "checkpoint_hash": found.checkpoint_hash,
        "workload": GeneratePoint(batch=1, prompt_tokens=8, new_tokens=4),
    }
    job = Job(
        case=Case(**case), measure=MeasureSettings(), gate=GateSettings(),
        seed=0, round=0, order_slot=0,
    )  # fmt: skip
    record = worker.verify(job)
    assert record.status == "ok", record.reason
    (gate,) = (gate for gate in record.gates if gate.name == "inflation")
    assert gate.observed is not None
    assert 0 < gate.observed <= inflate.MOST_DIVERGENCE
    assert "KL from zoo/small-gqa" in gate.detail
