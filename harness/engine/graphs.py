"""Decode steps as graphs: captured once for each size of batch, replayed on static buffers.

A step of one token a sequence reads what changes from buffers that stay where they are: tokens,
positions, lengths, pages and where new entries go. Batches are rounded up to a bucket; rows too
many hold nothing and write nowhere, so that they change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from harness.engine.capture import Capture, Captured
from harness.engine.store import Destinations, Pages, TokenStore
from harness.model.batch import RaggedBatch
from harness.plan import Limits

# A row of padding writes its entry here: the kernel `rope_write` passes over it.
NOWHERE = -1


def bucket(size: int, slots: int) -> int:
    """Rows of the graph that takes a batch: the next power of two, but no more than slots."""
    return min(slots, 1 << (size - 1).bit_length())


@dataclass
class _Class:
    """Buffers of the groups whose tables and places are the same."""

    table: Tensor  # [M, pages] int32
    lens: Tensor  # [M] int32
    pages: Tensor  # [M] int64
    offsets: Tensor  # [M] int64


@dataclass
class StaticTokens:
    """What a captured step sees of a token store: its pools, and buffers in place of its tables."""

    rows: int
    capacity: int  # tokens of the longest sequence
    device: str
    groups: int
    # The first group of each class, by the class's place.
    _first: list[int] = field(default_factory=list)
    _classes: list[_Class] = field(default_factory=list)
    _of: list[tuple[int, tuple[Tensor, ...]]] = field(default_factory=list)
    _filled: int = 0

    def load(self, tokens: TokenStore, count: int) -> None:
        """Copy where the `count` sequences of the store's batch lie; the other rows are padding."""
        for group, own in zip(self._first, self._classes, strict=True):
            to, held = _where(tokens, group)
            own.table[:count, : held.table.shape[1]] = held.table
            own.lens[:count] = held.lens
            own.pages[:count] = to.pages
            own.offsets[:count] = to.offsets
            if count < self._filled:
                own.lens[count:] = 0
                own.pages[count:] = NOWHERE
        self._filled = count

    def destinations(self, group: int) -> Destinations:
        """Where the step's rows go."""
        place, pools = self._of[group]
        own = self._classes[place]
        return Destinations(pools, own.pages, own.offsets)

    def pages(self, group: int) -> Pages:
        """What the step's sequences hold, as pages."""
        place, pools = self._of[group]
        own = self._classes[place]
        return Pages(pools, own.table, own.lens, self.capacity)

    def look(self, tokens: TokenStore) -> None:
        """Find which groups share tables and places: stores make them once for all of a kind.

        Until something is loaded all rows are padding.
        """
        seen: list[tuple[Tensor, Tensor]] = []
        for group in range(self.groups):
            to, held = _where(tokens, group)
            alike = [pages is to.pages and table is held.table for pages, table in seen]
            place = alike.index(True) if True in alike else len(seen)
            if place == len(seen):
                seen.append((to.pages, held.table))
                self._first.append(group)
                self._classes.append(self._buffers(held.pools[0].shape[2]))
            self._of.append((place, held.pools))

    def _buffers(self, block: int) -> _Class:
        M, width = self.rows, -(-self.capacity // block)

        def whole(*size: int, dtype: torch.dtype, value: int = 0) -> Tensor:
            return torch.full(size, value, dtype=dtype, device=self.device)

        return _Class(
            whole(M, width, dtype=torch.int32),
            whole(M, dtype=torch.int32),
            whole(M, dtype=torch.int64, value=NOWHERE),
            whole(M, dtype=torch.int64),
        )


def _where(tokens: TokenStore, group: int) -> tuple[Destinations, Pages]:
    to, held = tokens.destinations(group), tokens.pages(group)
    # Planning refuses what has no one place in a page (`harness.fit.uncapturable`).
    assert to is not None, f"group {group} has no places to write to by itself"
    assert held is not None, f"group {group} is not kept as pages"
    assert held.starts is None, f"group {group} moves its entries"
    return to, held


class _Step:
    """The captured step of one bucket."""

    def __init__(self, rows: int, capacity: int, groups: int, device: str) -> None:
        self.tokens = torch.zeros(rows, dtype=torch.int64, device=device)
        self.positions = torch.zeros(rows, dtype=torch.int64, device=device)
        self.store = StaticTokens(rows, capacity, device, groups)
        self.batch = RaggedBatch(
            tokens=[0] * rows, positions=[0] * rows, cu_seqlens=[*range(rows + 1)],
            context_lens=[0] * rows, seqs=[*range(rows)], qq_masks=[None] * rows,
            certain=[1] * rows, device=device, captured=self.positions,
        )  # fmt: skip
        self.batch.__dict__["token_tensor"] = self.tokens
        self.captured: Captured | None = None

    def capture(self, model: Any, capture: Capture) -> None:
        """Capture the model's forward on the buffers as they are."""
        store = SimpleNamespace(tokens=self.store, recurrent=None)

        def work() -> Tensor:
            # What layers share is worked out anew in every replay.
            self.batch.scratch.clear()
            found: Tensor = model(self.batch, store)
            return found

        # Kernels are compiled and loaded outside of the capture.
        work()
        self.captured = capture(work)

    def load(self, batch: RaggedBatch, tokens: TokenStore) -> None:
        """Put a batch's numbers into the buffers."""
        count = batch.size
        self.tokens[:count] = batch.token_tensor
        self.positions[:count] = torch.tensor(batch.positions, device=batch.device)
        self.store.load(tokens, count)


class DecodeGraphs:
    """A model's decode steps over a store, all buckets captured when the first one is met.

    All at once, so that none is captured while something is timed.
    """

    def __init__(
        self, model: Any, tokens: TokenStore, limits: Limits, device: str, capture: Capture
    ) -> None:
        self._model, self._tokens, self._limits = model, tokens, limits
        self._device, self._capture = device, capture
        self._steps: dict[int, _Step] = {}
        self._replayed = 0

    def takes(self, batch: RaggedBatch) -> bool:
        """Whether a batch is a plain decode step: the next token of each sequence, and no more."""
        return (
            batch.one_row_each
            and batch.causal_block == 1
            and batch.size <= self._limits.slots
            and batch.positions == batch.context_lens
            and not any(mask is not None for mask in batch.qq_masks)
        )

    def run(self, batch: RaggedBatch) -> Tensor:
        """Features after the last norm, [B, D], of a batch that the store has begun."""
        if not self._steps:
            self._capture_all()
        step = self._steps[bucket(batch.size, self._limits.slots)]
        step.load(batch, self._tokens)
        assert step.captured is not None
        step.captured.replay()
        self._replayed += 1
        output: Tensor = step.captured.output
        # The next replay writes there again.
        return output[: batch.size].clone()

    def _capture_all(self) -> None:
        """Capture every bucket, of rows of padding alone: they write nowhere."""
        slots = self._limits.slots
        capacity = self._limits.max_tokens + self._limits.lookahead
        groups = len(self._model.token_states)
        for rows in sorted({bucket(size, slots) for size in range(1, slots + 1)}):
            step = _Step(rows, capacity, groups, self._device)
            step.store.look(self._tokens)
            step.capture(self._model, self._capture)
            self._steps[rows] = step

    def forget(self) -> None:
        """Drop what was captured, with whatever was wrapped around it then."""
        self._steps.clear()

    def counters(self) -> dict[str, int]:
        """Buckets that are captured, and steps that were replayed."""
        return {"graph_buckets": len(self._steps), "graph_steps": self._replayed}
