"""Attention over the last `window` tokens."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from harness.model.attention import Attention, attend
from harness.model.batch import RaggedBatch
from harness.model.building import Parts
from harness.model.rope import rotate
from harness.shape import ModelShape, TokenState


class Local:
    """One layer; where layers share entries only their owner has keys and values."""

    def __init__(self, parts: Parts, layer: int, group: int, owner: bool) -> None:
        self._shape, self._group = parts.shape, group
        names = "qkvo" if owner else "qo"
        self._linear = {
            name: parts.linear(f"{layer}.{name}", parts.weight(f"{layer}.{name}")) for name in names
        }
        self._table = parts.rope_table(parts.shape.head_dim)
        self._decode = parts.operation("decode_attention")

    @staticmethod
    def state(shape: ModelShape, layers: tuple[int, ...]) -> TokenState:
        entry = (shape.kv_heads, shape.head_dim)
        return TokenState((("k", entry), ("v", entry)), layers, shape.window)

    @staticmethod
    def weights(shape: ModelShape, owner: bool) -> dict[str, tuple[int, ...]]:
        return Attention.weights(shape, owner)

    def __call__(self, x: Tensor, residual: Tensor, batch: RaggedBatch, store: Any) -> Tensor:
        T, H = len(x), self._shape.head_dim
        table = self._table.at(batch.positions)
        if "k" in self._linear:
            key = rotate(self._linear["k"](x).view(T, -1, H), table)
            store.tokens.append(self._group, (key, self._linear["v"](x).view(T, -1, H)))
        mixed = attend(
            rotate(self._linear["q"](x).view(T, -1, H), table),
            batch,
            store.tokens,
            self._group,
            H**-0.5,
            self._decode,
            self._shape.window,
        )
        return self._linear["o"].add(residual, mixed.reshape(T, -1))
