"""Softmax attention over a ragged batch: the standard mixer, and `attend` for any that has keys.

Grouped queries are the general case: K = N is multi-head, K = 1 multi-query attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from harness.model.batch import RaggedBatch
from harness.model.building import Parts
from harness.model.portions import Portion, split
from harness.shape import ModelShape, TokenState


class Attention:
    """One layer's attention. Layers that share keys and values (CLA) have one owner who writes."""

    def __init__(self, parts: Parts, layer: int, group: int, owner: bool) -> None:
        shape = parts.shape
        self._heads, self._dim = shape.heads, shape.head_dim
        self._group, self._owner = group, owner
        self._window = shape.window(layer)
        self._scale, self._cap = shape.scale, shape.score_cap
        self._kernels = Kernels.of(parts)
        self._rope = parts.rope_write()
        names = ("q", "k", "v") if owner else ("q",)
        fused = torch.cat([parts.weight(f"{layer}.{name}") for name in names])
        self._qkv = parts.linear(f"{layer}.qkv" if owner else f"{layer}.q", fused)
        self._out = parts.linear(f"{layer}.o", parts.weight(f"{layer}.o"))
        self._table = parts.rope_table(shape.head_dim, layer)
        normed = ("q", "k") if owner else ("q",)
        # The norms of queries and keys, and where those heads end in the fused projection.
        self._norms = [
            (parts.norm(f"{layer}.{name}_norm"), end)
            for name, end in zip(normed, (shape.heads, shape.heads + shape.kv_heads), strict=False)
            if shape.qk_norm
        ]

    @staticmethod
    def state(shape: ModelShape, layers: tuple[int, ...]) -> TokenState:
        """What these layers keep a token: one key and one value a K/V head."""
        entry = (shape.kv_heads, shape.head_dim)
        return TokenState((("k", entry), ("v", entry)), layers, shape.window(layers[0]))

    @staticmethod
    def weights(shape: ModelShape, owner: bool) -> dict[str, tuple[int, ...]]:
        """Queries and output of every layer, keys and values of those that own them."""
        q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        written = {"k": (kv, shape.width), "v": (kv, shape.width)} if owner else {}
        normed = ("q_norm", "k_norm") if owner else ("q_norm",)
        norms = {name: (shape.head_dim,) for name in normed if shape.qk_norm}
        return {"q": (q, shape.width), **written, **norms, "o": (shape.width, q)}

    def __call__(self, x: Tensor, residual: Tensor, batch: RaggedBatch, store: Any) -> Tensor:
        """x [T, D] normed, residual [T, D] -> residual + attention, [T, D]."""
        table = batch.scratch.get(self._table)
        if table is None:
            table = batch.scratch[self._table] = self._table.of(batch)
        N = self._heads
        qkv = self._qkv(x).view(x.shape[0], -1, self._dim)  # [T, N + 2K, H]
        if self._norms:
            self._norm_heads(qkv)
        if self._owner:
            q = self._rope(qkv, table, store.tokens, self._group)
        else:
            q = self._rope.queries(qkv, table)
        mixed = attend(
            q, batch, store.tokens, self._group, self._scale, self._kernels, self._window, self._cap
        )
        return self._out.add(residual, mixed.reshape(x.shape[0], N * self._dim))

    def _norm_heads(self, qkv: Tensor) -> None:
        """Norm queries and keys [T, N + 2K, H] where they stand."""
        start = 0
        for norm, end in self._norms:
            heads = qkv[:, start:end]
            heads.copy_(norm(heads.reshape(-1, self._dim)).view(heads.shape))
            start = end


@dataclass(frozen=True)
class Kernels:
    """The attention kernels of the plan's backend."""

    prefill: Callable[..., Tensor]
    decode: Callable[..., Tensor]

    @classmethod
    def of(cls, parts: Parts) -> Kernels:
        """Both, recorded as what this model's attention runs on."""
        return cls(parts.operation("prefill_attention"), parts.operation("decode_attention"))


def attend(
    q: Tensor,
    batch: RaggedBatch,
    tokens: Any,
    group: int,
    scale: float,
    kernels: Kernels,
    window: int | None = None,
    cap: float = 0.0,
) -> Tensor:
    """Attention of queries [T, N, H] over everything their sequences hold, [T, N, H].

    Sequences that give a few rows, a decode step or a draft, go through the decode kernel together;
    the others, prompts and chunks of them, through prefill.
    """
    pages, portions = pages_and_portions(batch, tokens, group, window)
    if len(portions) == 1:
        return _attend(q, portions[0], pages, scale, kernels, window, cap)
    out = torch.empty_like(q)
    for portion in portions:
        assert portion.rows is not None
        some = q.index_select(0, portion.rows)
        found = _attend(some, portion, pages, scale, kernels, window, cap)
        out.index_copy_(0, portion.rows, found)
    return out


def pages_and_portions(
    batch: RaggedBatch, tokens: Any, group: int, window: int | None = None
) -> tuple[Any, list[Portion]]:
    """What the sequences hold of a group, as pages, and the portions that a kernel takes each."""
    pages = tokens.pages(group)
    if pages is None:
        pages = _loose(batch, tokens, group)
    key = ("attention", window, pages.starts)
    portions: list[Portion] | None = batch.scratch.get(key)
    if portions is None:
        portions = batch.scratch[key] = split(batch, window, pages.starts)
    return pages, portions


def _attend(
    q: Tensor,
    portion: Portion,
    pages: Any,
    scale: float,
    kernels: Kernels,
    window: int | None,
    cap: float,
) -> Tensor:
    kernel = kernels.decode if portion.decode else kernels.prefill
    table, lens = portion.of(pages.table, pages.lens)
    key, value = pages.pools
    found: Tensor = kernel(
        q, key, value, table, lens, scale, portion.cu_seqlens, portion.causal_block, window or 0,
        cap, portion.mask, portion.positions, *(pages.scales or ()), lengths=portion.lengths,
    )  # fmt: skip
    return found


@dataclass(frozen=True)
class _Loose:
    """Entries without pages in the form of the engine's `Pages`: every token is a page."""

    pools: tuple[Tensor, ...]
    table: Tensor
    lens: Tensor
    starts: tuple[int, ...]
    scales: None = None


def _loose(batch: RaggedBatch, tokens: Any, group: int) -> _Loose:
    """What a store without pages holds, sequence behind sequence."""
    read = [tokens.read(group, i) for i in range(batch.size)]
    pools = tuple(
        torch.cat([streams[n] for streams, _ in read], 1).transpose(0, 1).unsqueeze(2)
        for n in range(len(read[0][0]))
    )  # [S, K, 1, H] each
    counts = [streams[0].shape[1] for streams, _ in read]
    first = torch.tensor([0, *accumulate(counts[:-1])], dtype=torch.int32)[:, None]
    # Past a sequence's last entry any will do, its neighbour's or the last of all.
    table = (first + torch.arange(max(counts), dtype=torch.int32)).clamp(max=sum(counts) - 1)
    lens = torch.tensor(counts, dtype=torch.int32, device=batch.device)
    return _Loose(pools, table.to(batch.device), lens, tuple(start for _, start in read))
