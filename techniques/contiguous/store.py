"""One region of fixed capacity a sequence, head-major: [slots, K, capacity, H] a stream.

Groups with a window have shorter regions of their own (`window.py`).
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from harness.engine.store import Blob, Destinations, Pages
from harness.model.batch import RaggedBatch
from harness.plan import Limits
from harness.shape import TokenState
from harness.technique import TechniqueOptions
from harness.techniques.contiguous.pools import made, move, rows_of, slot_count
from harness.techniques.contiguous.window import Regions, WindowedGroup


class ContiguousStore:
    """A token store whose sequences each own a slot. To kernels it is a pool of one page a slot."""

    def __init__(
        self,
        groups: list[TokenState],
        limits: Limits,
        *,
        dtype: torch.dtype,
        device: str,
        options: TechniqueOptions | None = None,  # noqa: ARG002 - the slot's factory signature
    ) -> None:
        self._capacity = limits.max_tokens + limits.lookahead
        self._slots = slot_count(groups, limits, dtype)
        self._device = device
        self._windowed = {
            index: WindowedGroup(group, self._slots, limits, dtype, device)
            for index, group in enumerate(groups)
            if group.window is not None
        }
        # Streams are [entry heads, entry numbers]: a pool is [slots, heads, capacity, numbers].
        self._pools = made(groups, self._slots, self._capacity, dtype, device)
        self._free: list[int] = []
        self._slot: dict[int, int] = {}
        self._length: dict[int, int] = {}
        self._batch: RaggedBatch | None = None
        self._batch_slots: list[int] = []
        self._place: int | None = None
        self._places: tuple[Tensor, Tensor] | None = None
        self._table: tuple[Tensor, Tensor] | None = None
        self._rows: tuple[Tensor, Tensor] | None = None
        self._region_tables: Regions = {}
        self.reset()

    def length(self, seq: int) -> int:
        """Tokens held."""
        return self._length.get(seq, 0)

    def match(self, seq: int, tokens: list[int]) -> int:
        """Nothing is shared between slots."""
        del seq, tokens
        return 0

    def reserve(self, seq: int, count: int) -> bool:
        """A slot, and room in it for `count` more tokens."""
        if self.length(seq) + count > self._capacity:
            return False
        if seq not in self._slot:
            if not self._free:
                return False
            self._slot[seq] = self._free.pop()
        return True

    def extend(self, seqs: Collection[int]) -> bool:
        """Room for one more token of each, all of which have a slot."""
        capacity, lengths = self._capacity, self._length
        return all(lengths[seq] < capacity for seq in seqs)

    def begin(self, batch: RaggedBatch) -> None:
        """Work out once where this batch's rows go."""
        self._batch = batch
        self._batch_slots = [self._slot[seq] for seq in batch.seqs]
        self._place = self._places = self._table = self._rows = None
        self._region_tables.clear()
        if batch.one_row_each:
            contexts, first = batch.context_lens, self._batch_slots[0]
            adjacent = self._batch_slots == list(range(first, first + batch.size))
            if adjacent and contexts.count(contexts[0]) == batch.size:
                self._place = contexts[0]
            else:
                # Places in the cache, not rope positions: a tree has equal positions.
                self._places = (
                    torch.tensor(self._batch_slots, device=self._device),
                    torch.tensor(contexts, device=self._device),
                )

    def append(self, group: int, streams: tuple[Tensor, ...]) -> None:
        """Write this batch's entries, each stream [T, K, H]."""
        batch = self._batch
        assert batch is not None
        if group in self._windowed:
            for i, slot in enumerate(self._batch_slots):
                rows_of = tuple(rows[batch.rows(i)].transpose(0, 1) for rows in streams)
                self._windowed[group].append(slot, batch.context_lens[i], rows_of)
            return
        for pool, rows in zip(self._pools[group], streams, strict=True):
            if self._place is not None:
                first = self._batch_slots[0]
                pool[first : first + batch.size, :, self._place] = rows
            elif self._places is not None:
                pool.transpose(1, 2).index_put_(self._places, rows)
            else:
                for i, slot in enumerate(self._batch_slots):
                    start, end = batch.context_lens[i], batch.lens[i]
                    pool[slot, :, start:end] = rows[batch.rows(i)].transpose(0, 1)

    def destinations(self, group: int) -> Destinations | None:
        """Slot and place in it of each of the batch's rows; a window's entries move about."""
        if group in self._windowed:
            return None
        if self._rows is None:
            batch = self._batch
            assert batch is not None
            self._rows = rows_of(batch, self._batch_slots)
        return Destinations(self._pools[group], *self._rows)

    def read(self, group: int, i: int) -> tuple[tuple[Tensor, ...], int]:
        """Everything of sequence i with this batch's rows: views [K, S, H], and its first place."""
        assert self._batch is not None
        slot, end = self._batch_slots[i], self._batch.lens[i]
        if group in self._windowed:
            return self._windowed[group].view(slot), self._windowed[group].first(slot)
        return tuple(pool[slot, :, :end] for pool in self._pools[group]), 0

    def pages(self, group: int) -> Pages | None:
        """One page a sequence: its slot, or its region of a window, unless a prompt lies beside."""
        batch = self._batch
        assert batch is not None
        if group in self._windowed:
            return self._windowed[group].pages(self._batch_slots, batch, self._region_tables)
        if self._table is None:
            self._table = (
                torch.tensor(self._batch_slots, dtype=torch.int32, device=self._device)[:, None],
                torch.tensor(batch.lens, dtype=torch.int32, device=self._device),
            )
        return Pages(self._pools[group], *self._table, max(batch.lens))

    def advance(self, batch: RaggedBatch) -> None:
        """The batch's rows are now held."""
        self._length.update(zip(batch.seqs, batch.lens, strict=True))

    def rewind(self, seq: int, length: int) -> int:
        """Forget from `length` on; what lies there is overwritten later."""
        self._length[seq] = min(self.length(seq), length)
        for windowed in self._windowed.values():
            windowed.rewind(self._slot[seq], self._length[seq])
        return self._length[seq]

    def select(self, seq: int, start: int, kept: list[int]) -> None:
        """Move the kept rows down to follow `start`."""
        slot = self._slot[seq]
        offsets = torch.tensor(kept, dtype=torch.int64, device=self._device)
        move(self._pools, slot, start, offsets)
        for windowed in self._windowed.values():
            windowed.select(slot, start, offsets)
        self._length[seq] = start + len(kept)

    def settle(self, seq: int) -> None:
        """A slot's room is fixed; what left a window is forgotten."""
        for windowed in self._windowed.values():
            windowed.settle(self._slot[seq])

    def fork(self, source: int, target: int) -> bool:
        """Copy what the source holds."""
        return self.import_(target, self.export(source))

    def free(self, seq: int) -> None:
        """Give the slot back."""
        if seq in self._slot:
            for windowed in self._windowed.values():
                windowed.free(self._slot[seq])
            self._free.append(self._slot.pop(seq))
            # Lowest first, so that the next batch finds adjacent slots.
            self._free.sort(reverse=True)
        self._length.pop(seq, None)

    def export(self, seq: int) -> Blob:
        """Copies of everything held, [K, S, H] a stream, by group; and first places in windows."""
        slot, length = self._slot[seq], self.length(seq)
        whole = {
            group: tuple(pool[slot, :, :length].clone() for pool in pools)
            for group, pools in self._pools.items()
        }
        parts = {
            group: tuple(stream.clone() for stream in windowed.view(slot))
            for group, windowed in self._windowed.items()
        }
        first = {group: windowed.first(slot) for group, windowed in self._windowed.items()}
        return {"length": length, "streams": whole | parts, "first": first}

    def import_(self, seq: int, blob: Blob) -> bool:
        """Take over an exported sequence."""
        if not self.reserve(seq, blob["length"]):
            return False
        slot = self._slot[seq]
        for group, pools in self._pools.items():
            for pool, stream in zip(pools, blob["streams"][group], strict=True):
                pool[slot, :, : blob["length"]] = stream
        for group, windowed in self._windowed.items():
            windowed.load(slot, blob["first"][group], blob["streams"][group])
        self._length[seq] = blob["length"]
        return True

    def reset(self) -> None:
        """Forget every sequence."""
        self._free = list(range(self._slots))[::-1]
        self._slot.clear()
        self._length.clear()
        for windowed in self._windowed.values():
            windowed.reset()

    def held_bytes(self) -> int:
        """Bytes of the entries held, read off views of the pools."""
        held = [(slot, self.length(seq)) for seq, slot in self._slot.items()]
        pools = [pool for streams in self._pools.values() for pool in streams]
        whole = sum(pool[slot, :, :length].nbytes for slot, length in held for pool in pools)
        return whole + sum(windowed.held_bytes() for windowed in self._windowed.values())

    def reserved_bytes(self) -> int:
        """Bytes of the pools."""
        whole = sum(pool.nbytes for pools in self._pools.values() for pool in pools)
        return whole + sum(windowed.reserved_bytes() for windowed in self._windowed.values())

    def longest(self) -> int:
        """Tokens of the longest sequence that fits when it is alone."""
        return self._capacity

    def room(self) -> int:
        """Places in free slots."""
        return len(self._free) * self._capacity

    def counters(self) -> dict[str, int]:
        """Places of all slots, of those taken, and of the tokens in them."""
        return {
            "places": self._slots * self._capacity,
            "places_held": len(self._slot) * self._capacity,
            "places_used": sum(self._length.values()),
        }
