"""The decoder language model: embedding, layers of mixer and feed-forward, head."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own abbreviation
from torch import Tensor

from harness.model.batch import RaggedBatch
from harness.model.building import Parts
from harness.model.layout import layout, mixer_target
from harness.model.norm import RMSNorm
from harness.plan import EnginePlan
from harness.technique import load


class FeedForward:
    """SwiGLU (arXiv:2002.05202) with gate and up in one matrix: down(silu(gate x) * up x)."""

    def __init__(self, parts: Parts, layer: int) -> None:
        fused = torch.cat([parts.weight(f"{layer}.gate"), parts.weight(f"{layer}.up")])
        self._gate_up = parts.linear(f"{layer}.gate_up", fused)
        self._down = parts.linear(f"{layer}.down", parts.weight(f"{layer}.down"))
        self._swiglu = parts.operation("swiglu")

    def __call__(self, x: Tensor, residual: Tensor) -> Tensor:
        """x [T, D] normed, residual [T, D] -> residual + feed-forward, [T, D]."""
        return self._down.add(residual, self._swiglu(self._gate_up(x)))


class DecoderLM:
    """The model that an engine runs; inference only, built from a state dict."""

    def __init__(
        self, plan: EnginePlan, weights: dict[str, Tensor], dtype: torch.dtype, device: str
    ) -> None:
        shape = plan.shape
        self.vocab = shape.vocab
        parts = Parts(plan, weights, dtype, device)
        self.token_states, self.sequence_states, places = layout(shape)
        self._embedding = parts.vector("embed")  # [V, D]
        self._layers: list[tuple[RMSNorm, Any, RMSNorm | None, FeedForward | None]] = []
        for layer, (group, owner) in enumerate(places):
            mixer = load(mixer_target(shape, layer))(parts, layer, group, owner)
            has_ff = shape.ff > 0
            self._layers.append(
                (
                    parts.norm(f"{layer}.norm1"),
                    mixer,
                    parts.norm(f"{layer}.norm2") if has_ff else None,
                    FeedForward(parts, layer) if has_ff else None,
                )
            )
        self._norm = parts.norm("norm")
        self.head = parts.linear("head", parts.weight("embed" if shape.tied else "head"))
        self.weights_bytes = parts.weights_bytes
        self.implementations = parts.implementations

    def __call__(self, batch: RaggedBatch, store: Any) -> Tensor:
        """Features after the last norm, [T, D]. `store` is the engine's Store, already begun."""
        x = F.embedding(batch.token_tensor, self._embedding)  # [T, D]
        for norm1, mixer, norm2, feed_forward in self._layers:
            x = mixer(norm1(x), x, batch, store)
            if feed_forward is not None and norm2 is not None:
                x = feed_forward(norm2(x), x)
        return self._norm(x)
