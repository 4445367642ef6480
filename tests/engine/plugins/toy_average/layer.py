"""mean_t = share * mean_(t-1) + (1 - share) * q(x_t); the layer gives o(mean_t)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harness.model.batch import RaggedBatch
from harness.model.building import Parts
from harness.shape import ModelShape, SequenceState


class Average:
    """One layer; its weights are called as an attention layer's queries and output."""

    def __init__(self, parts: Parts, layer: int, group: int, owner: bool) -> None:
        self._group = group
        self._share = float(parts.shape.number("average_share"))
        self._in = parts.linear(f"{layer}.q", parts.weight(f"{layer}.q"))
        self._out = parts.linear(f"{layer}.o", parts.weight(f"{layer}.o"))

    @staticmethod
    def state(shape: ModelShape, layers: tuple[int, ...]) -> SequenceState:
        return SequenceState((("mean", (shape.heads * shape.head_dim,)),), layers)

    @staticmethod
    def weights(shape: ModelShape, owner: bool) -> dict[str, tuple[int, ...]]:
        inner = shape.heads * shape.head_dim
        return {"q": (inner, shape.width), "o": (shape.width, inner)}

    def __call__(self, x: Tensor, residual: Tensor, batch: RaggedBatch, store: Any) -> Tensor:
        entries = self._in(x)  # [T, N H]
        means = torch.empty_like(entries)
        for i in range(batch.size):
            mean = store.recurrent.load(self._group, i)["mean"]
            wanted = store.recurrent.wanted(i)
            for row, at in enumerate(range(batch.rows(i).start, batch.rows(i).stop)):
                mean = self._share * mean + (1 - self._share) * entries[at]
                means[at] = mean
                if row in wanted:
                    store.recurrent.save(self._group, i, row, {"mean": mean})
        return self._out.add(residual, means)
