"""The decoder language model: embedding, layers of mixer and feed-forward, head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own abbreviation
from torch import Tensor

from harness.model.batch import RaggedBatch
from harness.model.building import Parts
from harness.model.layout import Group, layout, mixer_target
from harness.model.linear import Linear
from harness.model.norm import RMSNorm
from harness.plan import EnginePlan
from harness.technique import load


class FeedForward:
    """SwiGLU or GeGLU (arXiv:2002.05202), gate and up in one matrix: down(act(gate x) * up x)."""

    def __init__(self, parts: Parts, layer: int) -> None:
        fused = torch.cat([parts.weight(f"{layer}.gate"), parts.weight(f"{layer}.up")])
        self._gate_up = parts.linear(f"{layer}.gate_up", fused)
        self._down = parts.linear(f"{layer}.down", parts.weight(f"{layer}.down"))
        if parts.shape.activation == "silu":
            self._gated = parts.operation("swiglu")
        else:
            self._gated = _geglu
            parts.only_torch("geglu")

    def __call__(self, x: Tensor, residual: Tensor) -> Tensor:
        """x [T, D] normed, residual [T, D] -> residual + feed-forward, [T, D]."""
        return self._down.add(residual, self._gated(self._gate_up(x)))


def _geglu(gate_up: Tensor) -> Tensor:
    """[T, 2F] -> [T, F], with GELU's tanh form."""
    width = gate_up.shape[1] // 2
    return F.gelu(gate_up[:, :width], approximate="tanh").mul_(gate_up[:, width:])


class Layer:
    """Mixer and feed-forward, each behind a norm and added to what came in."""

    def __init__(self, parts: Parts, layer: int, group: Group, owner: bool) -> None:
        shape = parts.shape
        self._norm1 = parts.norm(f"{layer}.norm1")
        self._mixer: Any = load(mixer_target(shape, layer))(parts, layer, group, owner)
        self._norm2 = parts.norm(f"{layer}.norm2") if shape.ff else None
        self._feed_forward = FeedForward(parts, layer) if shape.ff else None
        self._after: list[RMSNorm] = []
        if shape.post_norms:
            # Both add themselves to a residual; to one of zero, where a norm is to come between.
            self._nothing = torch.zeros((), dtype=parts.dtype, device=parts.device)
            self._after = [parts.norm(f"{layer}.{name}") for name in ("norm1_post", "norm2_post")]

    def __call__(self, x: Tensor, batch: RaggedBatch, store: Any) -> Tensor:
        """[T, D] -> [T, D]."""
        if self._after:
            return self._normed_after(x, batch, store)
        x = self._mixer(self._norm1(x), x, batch, store)
        if self._feed_forward is not None and self._norm2 is not None:
            x = self._feed_forward(self._norm2(x), x)
        return x

    def _normed_after(self, x: Tensor, batch: RaggedBatch, store: Any) -> Tensor:
        mixed, fed = self._after
        assert self._feed_forward is not None
        assert self._norm2 is not None
        x = x + mixed(self._mixer(self._norm1(x), self._nothing, batch, store))
        return x + fed(self._feed_forward(self._norm2(x), self._nothing))


class Capped:
    """A head whose logits y become c tanh(y / c) (arXiv:2408.00118, 2)."""

    def __init__(self, head: Linear, cap: float) -> None:
        self._head, self._cap = head, cap

    def __call__(self, x: Tensor) -> Tensor:
        """[T, D] -> [T, V]."""
        return torch.tanh_(self._head(x).div_(self._cap)).mul_(self._cap)


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
        self._scale = shape.embed_scale
        self._layers = [
            Layer(parts, layer, group, owner) for layer, (group, owner) in enumerate(places)
        ]
        self._norm = parts.norm("norm")
        head = parts.linear("head", parts.weight("embed" if shape.tied else "head"))
        self.head: Callable[[Tensor], Tensor] = (
            Capped(head, shape.logit_cap) if shape.logit_cap else head
        )
        self.weights_bytes = parts.weights_bytes
        self.implementations = parts.implementations

    def __call__(self, batch: RaggedBatch, store: Any) -> Tensor:
        """Features after the last norm, [T, D]. `store` is the engine's Store, already begun."""
        x = F.embedding(batch.token_tensor, self._embedding)  # [T, D]
        if self._scale != 1:
            x.mul_(self._scale)
        for layer in self._layers:
            x = layer(x, batch, store)
        return self._norm(x)
