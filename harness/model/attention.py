"""Softmax attention over a ragged batch: the standard mixer, and `attend` for any that has keys.

Grouped queries are the general case: K = N is multi-head, K = 1 multi-query attention.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own abbreviation
from torch import Tensor

from harness.model.batch import RaggedBatch
from harness.model.building import Parts
from harness.model.rope import rotate
from harness.shape import ModelShape, TokenState


class Attention:
    """One layer's attention. Layers that share keys and values (CLA) have one owner who writes."""

    def __init__(self, parts: Parts, layer: int, group: int, owner: bool) -> None:
        shape = parts.shape
        self._heads, self._kv_heads, self._dim = shape.heads, shape.kv_heads, shape.head_dim
        self._group, self._owner = group, owner
        self._window = shape.window(layer)
        self._scale = shape.head_dim**-0.5
        self._decode = parts.operation("decode_attention")
        parts.only_torch("prefill_attention", "rope")
        names = ("q", "k", "v") if owner else ("q",)
        fused = torch.cat([parts.weight(f"{layer}.{name}") for name in names])
        self._qkv = parts.linear(f"{layer}.qkv" if owner else f"{layer}.q", fused)
        self._out = parts.linear(f"{layer}.o", parts.weight(f"{layer}.o"))
        self._table = parts.rope_table(shape.head_dim)

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
        return {"q": (q, shape.width), **written, "o": (shape.width, q)}

    def __call__(self, x: Tensor, residual: Tensor, batch: RaggedBatch, store: Any) -> Tensor:
        """x [T, D] normed, residual [T, D] -> residual + attention, [T, D]."""
        table = batch.scratch.get(self._table)
        if table is None:
            table = batch.scratch[self._table] = self._table.at(batch.positions)
        N, K = self._heads, self._kv_heads
        qkv = self._qkv(x).view(x.shape[0], -1, self._dim)  # [T, N + 2K, H]
        if self._owner:
            turned = rotate(qkv[:, : N + K], table)
            q = turned[:, :N]
            store.tokens.append(self._group, (turned[:, N:], qkv[:, N + K :]))
        else:
            q = rotate(qkv, table)
        mixed = attend(q, batch, store.tokens, self._group, self._scale, self._decode, self._window)
        return self._out.add(residual, mixed.reshape(x.shape[0], N * self._dim))


def attend(
    q: Tensor,
    batch: RaggedBatch,
    tokens: Any,
    group: int,
    scale: float,
    decode: Callable[..., Tensor],
    window: int | None = None,
) -> Tensor:
    """Attention of queries [T, N, H] over everything their sequences hold, [T, N, H].

    A plain decode step over a cache kept as pages goes through the decode kernel; anything else
    is a loop over sequences, which on a CPU beat or tied padding and block-diagonal masks.
    """
    if batch.one_row_each and window is None:
        pages = tokens.pages(group)
        if pages is not None:
            key, value = pages.pools
            return decode(q, key, value, pages.table, pages.lens, scale, max_len=pages.max_len)
    out = []
    for i in range(batch.size):
        (key, value), start = tokens.read(group, i)  # [K, S, H]
        rows = q[batch.rows(i)]  # [T, N, H]
        mask = visible(batch, i, start, window)
        out.append(
            F.scaled_dot_product_attention(
                rows.transpose(0, 1)[None],
                key[None],
                value[None],
                attn_mask=None if isinstance(mask, bool) else mask,
                is_causal=mask is True,
                scale=scale,
                enable_gqa=rows.shape[1] != key.shape[0],
            )[0].transpose(0, 1)
        )
    return torch.cat(out) if len(out) > 1 else out[0]


def visible(batch: RaggedBatch, i: int, start: int, window: int | None) -> Tensor | bool:
    """Which keys each row of sequence i sees: [T, S - start] bool, True: causal, False: all.

    Decided from host numbers alone: asking a device tensor would wait for the device.
    """
    T, context, length = batch.query_len(i), batch.context_lens[i], batch.lens[i]
    plain = batch.qq_masks[i] is None and batch.causal_block == 1
    windowed = window is not None and length - start > window
    if plain and not windowed:
        if T == 1:
            return False
        if context == 0 and start == 0:
            return True
    key = ("visible", i, start, window)
    mask: Tensor | None = batch.scratch.get(key)
    if mask is None:
        mask = batch.scratch[key] = _mask(batch, i, start, window)
    return mask


def _mask(batch: RaggedBatch, i: int, start: int, window: int | None) -> Tensor:
    positions = torch.tensor(batch.positions[batch.rows(i)], device=batch.device)
    context, block = batch.context_lens[i], batch.causal_block
    held = torch.arange(start, context, device=batch.device)
    keys = torch.cat([held, positions])
    mask = keys[None] // block <= positions[:, None] // block  # [T, S - start]
    own = batch.qq_masks[i]
    if own is not None:
        mask[:, len(held) :] = own.to(batch.device)
    if window is not None:
        mask &= positions[:, None] - keys[None] < window
    return mask
