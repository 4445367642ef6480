"""Portions of a ragged batch: the sequences that one call of an attention kernel takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from harness.kernels.decode_attention import MAX_ROWS
from harness.kernels.prefill_attention.lengths import Lengths
from harness.model.batch import RaggedBatch
from harness.model.visibility import seen


@dataclass(frozen=True)
class Portion:
    """Some sequences of a batch and everything about them that all layers share."""

    decode: bool  # a few rows each
    lengths: Any  # Lengths; None in a captured step, where only the device knows them
    # Which sequences, and which rows of the batch; None: all of them.
    sequences: Tensor | None  # int64
    rows: Tensor | None  # int64
    cu_seqlens: Tensor | None  # [B + 1] int32; None where each gives one row
    causal_block: int
    mask: Tensor | None = None  # [T, Q] float32, of draft trees
    positions: Tensor | None = None  # [T] int32, where a window is counted from others than places
    _tables: dict[int, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict)

    def of(self, table: Tensor, lens: Tensor) -> tuple[Tensor, Tensor]:
        """These sequences' rows of a batch's page table and lengths."""
        if self.sequences is None:
            return table, lens
        found = self._tables.get(id(table))
        if found is None:
            # The whole table is kept with them, so that its id names no other meanwhile.
            own = table.index_select(0, self.sequences), lens.index_select(0, self.sequences)
            found = self._tables[id(table)] = (table, *own)
        return found[1], found[2]


def split(batch: RaggedBatch, window: int | None, starts: tuple[int, ...] | None) -> list[Portion]:
    """A batch's portions: what gives at most MAX_ROWS rows a sequence, and the others.

    A captured step is one portion of one row a sequence. Kernels are told of `starts`, the places
    that entries are held from, by counting from there. Decided from host numbers alone: asking a
    device tensor would wait for the device.
    """
    if batch.captured is not None:
        return [Portion(True, None, None, None, None, batch.causal_block)]
    few = [i for i in range(batch.size) if batch.query_len(i) <= MAX_ROWS]
    if len(few) == batch.size:
        return [_portion(batch, None, True, window, starts)]
    if not few:
        return [_portion(batch, None, False, window, starts)]
    chosen = set(few)
    others = [i for i in range(batch.size) if i not in chosen]
    return [
        _portion(batch, few, True, window, starts),
        _portion(batch, others, False, window, starts),
    ]


def _portion(
    batch: RaggedBatch,
    chosen: list[int] | None,
    decode: bool,
    window: int | None,
    starts: tuple[int, ...] | None,
) -> Portion:
    sequences = range(batch.size) if chosen is None else chosen
    first = [0] * batch.size if starts is None else starts
    counts = [batch.query_len(i) for i in sequences]
    lengths = Lengths(counts, [batch.lens[i] - first[i] for i in sequences])
    rows = None
    if chosen is not None:
        places = [
            row for i in chosen for row in range(batch.cu_seqlens[i], batch.cu_seqlens[i + 1])
        ]
        rows = torch.tensor(places, device=batch.device)
    bounds = None
    if not decode or lengths.max_rows > 1:
        bounds = torch.tensor([0, *accumulate(counts)], dtype=torch.int32, device=batch.device)
    mask = positions = None
    if any(_special(batch, i) or first[i] % batch.causal_block for i in sequences):
        mask = _mask(batch, sequences, lengths, window)
        if window is not None:
            found = [at - first[i] for i in sequences for at in batch.positions[batch.rows(i)]]
            positions = torch.tensor(found, dtype=torch.int32, device=batch.device)
    return Portion(
        decode, lengths, None if chosen is None else torch.tensor(chosen, device=batch.device),
        rows, bounds, batch.causal_block, mask, positions,
    )  # fmt: skip


def _special(batch: RaggedBatch, i: int) -> bool:
    """Whether the rows of sequence i see each other in a way of their own, as a tree's do."""
    context = batch.context_lens[i]
    rows = batch.rows(i)
    places = range(context, context + rows.stop - rows.start)
    return batch.qq_masks[i] is not None or batch.positions[rows] != list(places)


def _mask(
    batch: RaggedBatch, sequences: list[int] | range, lengths: Lengths, window: int | None
) -> Tensor:
    """[T, Q] to be added to the scores of each row with its sequence's own rows."""
    size = sum(lengths.rows), lengths.max_rows
    mask = torch.full(size, -torch.inf, device=batch.device)
    start = 0
    for i, count in zip(sequences, lengths.rows, strict=True):
        own = seen(batch, i, batch.context_lens[i], window)
        mask[start : start + count, :count].masked_fill_(own, 0.0)
        start += count
    return mask
