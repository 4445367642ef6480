"""h_t = decay h_(t-1) + Q x_t, out_t = O h_t, with h as state of fixed size."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harness.model.batch import RaggedBatch
from harness.model.building import Parts
from harness.shape import ModelShape, SequenceState


class RunningSum:
    """One layer."""

    def __init__(self, parts: Parts, layer: int, group: int, owner: bool) -> None:
        self._group = group
        self._decay = float(parts.shape.number("decay"))
        self._in = parts.linear(f"{layer}.q", parts.weight(f"{layer}.q"))
        self._out = parts.linear(f"{layer}.o", parts.weight(f"{layer}.o"))

    @staticmethod
    def state(shape: ModelShape, layers: tuple[int, ...]) -> SequenceState:
        """One vector."""
        return SequenceState((("h", (shape.heads * shape.head_dim,)),), layers)

    @staticmethod
    def weights(shape: ModelShape, owner: bool) -> dict[str, tuple[int, ...]]:
        """In and out."""
        inner = shape.heads * shape.head_dim
        return {"q": (inner, shape.width), "o": (shape.width, inner)}

    def __call__(self, x: Tensor, residual: Tensor, batch: RaggedBatch, store: Any) -> Tensor:
        """x [T, D] normed, residual [T, D] -> residual + mixed, [T, D]."""
        given = self._in(x)  # [T, N H]
        out = torch.empty_like(given)
        for i in range(batch.size):
            h = store.recurrent.load(self._group, i)["h"]
            wanted = set(store.recurrent.wanted(i))
            rows = batch.rows(i)
            for row in range(batch.query_len(i)):
                h = self._decay * h + given[rows.start + row]
                out[rows.start + row] = h
                if row in wanted:
                    store.recurrent.save(self._group, i, row, {"h": h})
        return self._out.add(residual, out)
