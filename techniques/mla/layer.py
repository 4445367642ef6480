"""The mixer of latent attention: expanded over many query rows, absorbed over few.

A few rows a sequence, a step or a draft, go through the kernel `mla_decode` together; prompts and
chunks of them are computed one sequence at a time.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own abbreviation
from torch import Tensor

from harness.model.attention import pages_and_portions
from harness.model.batch import RaggedBatch
from harness.model.building import Parts
from harness.model.portions import Portion
from harness.model.rope import rotate
from harness.model.visibility import visible
from harness.shape import ModelShape, TokenState
from harness.techniques.mla.sizes import of


class Latent:
    """One layer. What it keeps a token is the latent and one rotated key, for all heads."""

    def __init__(self, parts: Parts, layer: int, group: int, owner: bool) -> None:
        assert owner, "planning refuses shared layers of latent attention"
        self._heads, self._sizes, self._group = parts.shape.heads, of(parts.shape), group
        z = self._sizes
        self._scale = z.query**-0.5
        self._table = parts.rope_table(z.rope_dim, layer)
        if z.q_rank:
            self._q_down = parts.linear(f"{layer}.q_down", parts.weight(f"{layer}.q_down"))
            self._q_norm = parts.norm(f"{layer}.q_norm")
        name = f"{layer}.q_up" if z.q_rank else f"{layer}.q"
        self._q = parts.linear(name, parts.weight(name))
        self._down = parts.linear(f"{layer}.kv_down", parts.weight(f"{layer}.kv_down"))
        self._norm = parts.norm(f"{layer}.kv_norm")
        # Absorbing needs the matrices in effect, of whatever stores them: a decode step and a
        # prompt would otherwise run different models.
        self._key_up = self._matrix(parts, f"{layer}.k_up", z.nope_dim)  # [N, nope, R]
        self._value_up = self._matrix(parts, f"{layer}.v_up", z.value_dim)  # [N, value, R]
        self._out = parts.linear(f"{layer}.o", parts.weight(f"{layer}.o"))
        self._decode = parts.operation("mla_decode")
        parts.only_torch("latent_attention", "rope")

    def _matrix(self, parts: Parts, name: str, rows: int) -> Tensor:
        dense = parts.linear(name, parts.weight(name)).dense()
        return dense.reshape(self._heads, rows, self._sizes.kv_rank).contiguous()

    @staticmethod
    def state(shape: ModelShape, layers: tuple[int, ...]) -> TokenState:
        """One stream: the latent, and behind it the rotated key."""
        return TokenState((("latent", (1, of(shape).entry)),), layers)

    @staticmethod
    def weights(shape: ModelShape, owner: bool) -> dict[str, tuple[int, ...]]:
        """Down- and up-projections by the paper's names, q, kv, k and v."""
        assert owner
        z, N, D = of(shape), shape.heads, shape.width
        q: dict[str, tuple[int, ...]] = {"q": (N * z.query, D)}
        if z.q_rank:
            q = {"q_down": (z.q_rank, D), "q_norm": (z.q_rank,), "q_up": (N * z.query, z.q_rank)}
        return {
            **q,
            "kv_down": (z.entry, D),
            "kv_norm": (z.kv_rank,),
            "k_up": (N * z.nope_dim, z.kv_rank),
            "v_up": (N * z.value_dim, z.kv_rank),
            "o": (D, N * z.value_dim),
        }

    def __call__(self, x: Tensor, residual: Tensor, batch: RaggedBatch, store: Any) -> Tensor:
        """x [T, D] normed, residual [T, D] -> residual + attention, [T, D]."""
        z, T = self._sizes, x.shape[0]
        table = batch.scratch.get(self._table)
        if table is None:
            table = batch.scratch[self._table] = self._table.at(batch.positions)
        low = self._q_norm(self._q_down(x)) if z.q_rank else x
        q = self._q(low).view(T, self._heads, z.query)
        plain, turned = q[:, :, : z.nope_dim], rotate(q[:, :, z.nope_dim :], table)
        down = self._down(x)  # [T, R + rope]
        shared = rotate(down[:, None, z.kv_rank :], table)
        latent = self._norm(down[:, : z.kv_rank])
        store.tokens.append(self._group, (torch.cat([latent[:, None], shared], -1),))
        mixed = self._mixed(plain, turned, batch, store.tokens)
        return self._out.add(residual, mixed.reshape(T, self._heads * z.value_dim))

    def _mixed(self, plain: Tensor, turned: Tensor, batch: RaggedBatch, tokens: Any) -> Tensor:
        """Values [T, N, value] of queries [T, N, nope] and [T, N, rope], by portions."""
        pages, portions = pages_and_portions(batch, tokens, self._group)
        out = plain.new_empty(*plain.shape[:2], self._sizes.value_dim)
        for portion in portions:
            rows = slice(None) if portion.rows is None else portion.rows
            if portion.decode and portion.lengths.max_rows <= self._sizes.most_absorbed:
                out[rows] = self._step(plain[rows], turned[rows], portion, pages)
                continue
            chosen = range(batch.size) if portion.sequences is None else portion.sequences.tolist()
            for i in chosen:
                out[batch.rows(i)] = self._alone(plain, turned, batch, tokens, i)
        return out

    def _step(self, plain: Tensor, turned: Tensor, portion: Portion, pages: Any) -> Tensor:
        """Few rows of many sequences, over the latents themselves."""
        folded = torch.bmm(plain.transpose(0, 1), self._key_up).transpose(0, 1)  # [T, N, R]
        table, lens = portion.of(pages.table, pages.lens)
        mixed = self._decode(
            torch.cat([folded, turned], -1), pages.pools[0], table, lens, self._scale,
            self._sizes.kv_rank, portion.cu_seqlens, portion.causal_block, portion.mask,
            lengths=portion.lengths,
        )  # fmt: skip
        return torch.bmm(mixed.transpose(0, 1), self._value_up.mT).transpose(0, 1)

    def _alone(
        self, plain: Tensor, turned: Tensor, batch: RaggedBatch, tokens: Any, i: int
    ) -> Tensor:
        """The rows of sequence i, in the form that takes fewer FLOPs."""
        (entries,), start = tokens.read(self._group, i)  # [1, S, R + rope]
        rows, mask = batch.rows(i), visible(batch, i, start, None)
        absorbed = batch.query_len(i) <= self._sizes.most_absorbed
        form = self._absorbed if absorbed else self._expanded
        return form(plain[rows], turned[rows], entries[0], mask)

    def _absorbed(self, plain: Tensor, turned: Tensor, held: Tensor, mask: Tensor | bool) -> Tensor:
        """Queries [T, N, nope] and [T, N, rope] over the latents [S, R + rope] themselves.

        All heads see one key: they are laid out as rows of one head.
        """
        T, N, R = plain.shape[0], self._heads, self._sizes.kv_rank
        folded = torch.bmm(plain.transpose(0, 1), self._key_up)  # [N, T, R]
        query = torch.cat([folded, turned.transpose(0, 1)], -1).view(1, N * T, -1)
        if mask is True:
            # A prompt's rows: causal by row, which rows of several heads are not by place.
            mask = torch.ones(T, held.shape[0], dtype=torch.bool, device=held.device).tril()
        seen = None if mask is False else mask.repeat(N, 1)
        mixed = F.scaled_dot_product_attention(
            query, held[None], held[None, :, :R], attn_mask=seen, scale=self._scale
        )
        values = torch.bmm(mixed.view(N, T, R), self._value_up.mT)  # [N, T, value]
        return values.transpose(0, 1)

    def _expanded(self, plain: Tensor, turned: Tensor, held: Tensor, mask: Tensor | bool) -> Tensor:
        """The same with keys and values of every head."""
        z = self._sizes
        latent, shared = held[:, : z.kv_rank], held[:, z.kv_rank :]
        keys = latent @ self._key_up.mT  # [N, S, nope]
        key = torch.cat([keys, shared.expand(self._heads, -1, -1)], -1)
        query = torch.cat([plain, turned], -1).transpose(0, 1)  # [N, T, nope + rope]
        mixed = F.scaled_dot_product_attention(
            query[None],
            key[None],
            (latent @ self._value_up.mT)[None],
            attn_mask=None if isinstance(mask, bool) else mask,
            is_causal=mask is True,
            scale=self._scale,
        )
        return mixed[0].transpose(0, 1)
