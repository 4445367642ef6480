"""A plan and a model source to a running engine."""

from __future__ import annotations

from typing import Any

import torch

from harness import registry
from harness.engine.capture import Capture
from harness.engine.graphs import DecodeGraphs
from harness.engine.recurrent import RecurrentStore
from harness.engine.runner import Runner
from harness.engine.store import Store
from harness.errors import UnfitError
from harness.fit import uncapturable
from harness.kernel import implementation
from harness.model import weights as weights_module
from harness.model.decoder_lm import DecoderLM
from harness.model.source import ModelSource
from harness.plan import EnginePlan


def build(
    plan: EnginePlan,
    source: ModelSource,
    *,
    device: str = "cpu",
    seed: int = 0,
    capture: Capture | None = None,
) -> Any:
    """An engine with its weights loaded. `seed` draws the weights of a model that has none.

    With `capture` decode steps are captured by it and replayed; UnfitError for a stack whose steps
    cannot be. The result has the interface of `harness.engine.engine.Engine`; a technique may
    supply its own.
    """
    dtype = getattr(torch, plan.dtype)
    weights = weights_module.load(source, plan.shape, dtype, device, seed)
    return assemble(plan, weights, device=device, capture=capture)


def assemble(
    plan: EnginePlan,
    weights: dict[str, torch.Tensor],
    *,
    device: str = "cpu",
    capture: Capture | None = None,
) -> Any:
    """The same from a state dict."""
    runner = make_runner(plan, weights, device=device, capture=capture)
    assert plan.decoder is not None
    assert plan.scheduler is not None
    decoder = plan.decoder.make(runner, plan)
    _equip(decoder, plan, runner.model)
    scheduler = plan.scheduler.make(plan)
    return plan.engine.make(runner, decoder, scheduler, plan.limits.max_tokens)


def make_runner(
    plan: EnginePlan,
    weights: dict[str, torch.Tensor],
    *,
    device: str = "cpu",
    capture: Capture | None = None,
) -> Runner:
    """A model with its store: for the target, and for a draft with a plan of its own."""
    if capture is not None and (reason := uncapturable(plan)) is not None:
        raise UnfitError(f"cuda_graph: {reason}")
    dtype = getattr(torch, plan.dtype)
    for transform in plan.transforms:
        weights = transform.make(weights)
    model = DecoderLM(plan, weights, dtype, device)
    tokens = recurrent = None
    if model.token_states:
        assert plan.cache is not None
        tokens = plan.cache.make(model.token_states, plan.limits, dtype=dtype, device=device)
        _equip(tokens, plan, model)
    if model.sequence_states:
        recurrent = RecurrentStore(model.sequence_states, dtype, device)
    graphs = None
    if capture is not None:
        assert tokens is not None
        graphs = DecodeGraphs(model, tokens, plan.limits, device, capture)
    return Runner(model, Store(tokens, recurrent), device, graphs)


def _equip(part: Any, plan: EnginePlan, model: DecoderLM) -> None:
    """Give a store or decoder that has `operations`, kernels by name, the plan's backend's."""
    operations = getattr(part, "operations", {})
    for name in operations:
        used, operations[name] = implementation(registry.kernel(name), plan.backend)
        model.implementations[name] = used
