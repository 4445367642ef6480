"""The ragged batch: the tokens of all sequences of one forward, end to end."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor


@dataclass
class Item:
    """What one sequence gives to one forward."""

    seq: int
    tokens: list[int]
    # Rope positions; None: context length, context length + 1, ... (a draft tree gives depths).
    positions: list[int] | None = None
    # [T, T] bool, row sees column, among this forward's rows; None: causal.
    qq_mask: Tensor | None = None
    # Leading rows that cannot be rejected; None: all.
    certain: int | None = None


@dataclass
class RaggedBatch:
    """B sequences' query tokens flattened to T rows.

    `context_lens[i]` tokens are held before this forward; row r of sequence i sits at place
    `context_lens[i] + r`. Positions are not places: a tree repeats positions at different places.
    A key is visible when `place_k // causal_block <= place_q // causal_block` in positions, with
    this forward's own columns replaced by `qq_mask` where there is one.
    """

    tokens: list[int]  # T
    positions: list[int]  # T
    cu_seqlens: list[int]  # B + 1
    context_lens: list[int]  # B
    seqs: list[int]  # B
    qq_masks: list[Tensor | None]  # B
    certain: list[int]  # B
    device: str = "cpu"
    causal_block: int = 1
    # Of a step that is captured (`harness.engine.graphs`): positions on the device, [T] int64. The
    # host then knows how many rows there are and nothing else about them.
    captured: Tensor | None = None
    # Memo of one forward, shared by its layers: rope rows, masks, layouts.
    scratch: dict[Any, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """B, the number of sequences."""
        return len(self.seqs)

    def query_len(self, i: int) -> int:
        """T of sequence i."""
        return self.cu_seqlens[i + 1] - self.cu_seqlens[i]

    def rows(self, i: int) -> slice:
        """Rows of sequence i among the T rows."""
        return slice(self.cu_seqlens[i], self.cu_seqlens[i + 1])

    @cached_property
    def one_row_each(self) -> bool:
        """Whether every sequence gives exactly one token: the plain decode step."""
        return len(self.tokens) == len(self.seqs)

    @cached_property
    def lens(self) -> list[int]:
        """Tokens of each sequence once this forward's are appended, B."""
        return [c + self.query_len(i) for i, c in enumerate(self.context_lens)]

    @cached_property
    def token_tensor(self) -> Tensor:
        """[T] int64 on the device."""
        return torch.tensor(self.tokens, device=self.device)


def collect(
    items: list[Item], context_lens: list[int], causal_block: int = 1, device: str = "cpu"
) -> RaggedBatch:
    """Lay the items end to end. Every item needs at least one token."""
    tokens: list[int] = []
    positions: list[int] = []
    cu_seqlens = [0]
    for item, context in zip(items, context_lens, strict=True):
        # An empty item would make the row before its end the neighbour's.
        assert item.tokens, f"sequence {item.seq} gives no token to this forward"
        tokens += item.tokens
        if item.positions is None:
            positions += range(context, context + len(item.tokens))
        else:
            positions += item.positions
        cu_seqlens.append(len(tokens))
    return RaggedBatch(
        tokens=tokens,
        positions=positions,
        cu_seqlens=cu_seqlens,
        context_lens=context_lens,
        seqs=[item.seq for item in items],
        qq_masks=[item.qq_mask for item in items],
        certain=[len(item.tokens) if item.certain is None else item.certain for item in items],
        device=device,
        causal_block=causal_block,
    )
