"""The token store over block tables."""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch
from torch import Tensor

from harness.engine.store import Blob, Destinations, Pages
from harness.model.batch import RaggedBatch
from harness.plan import Limits
from harness.shape import TokenState
from harness.techniques.paged import Options
from harness.techniques.paged.accounting import block_count, counters, filled
from harness.techniques.paged.pools import Pools, padded
from harness.techniques.paged.reserved import ReservedTables
from harness.techniques.paged.swap import export, load
from harness.techniques.paged.tables import Copies, Tables


class PagedStore:
    """Groups with equal windows share tables: what one of them no longer needs, none of them does.

    Raises UnfitError where the memory that is granted holds no block.
    """

    def __init__(
        self,
        groups: list[TokenState],
        limits: Limits,
        *,
        dtype: torch.dtype,
        device: str,
        options: Options,
    ) -> None:
        self._options = options
        self._limits = limits
        self._block = options.block
        self._windows = list(dict.fromkeys(group.window for group in groups))
        self._class = [self._windows.index(group.window) for group in groups]
        self._share = options.share and self._windows == [None]
        self._count = block_count(groups, limits, options, dtype)
        self._pools = Pools(groups, self._count, self._block, dtype, device)
        self._entry_bytes = [group.entry_numbers * dtype.itemsize for group in groups]
        self._tables: list[Tables | ReservedTables] = []
        self._batch: RaggedBatch | None = None
        self._places: dict[int, tuple[Tensor, Tensor]] = {}
        self._gathers: dict[tuple[int, int], Tensor] = {}
        self._joined: dict[int, tuple[Tensor, Tensor]] = {}
        self.reset()

    @property
    def operations(self) -> dict[str, Callable[..., Tensor]]:
        """The kernels that copy and join blocks, by name: see `harness.engine.build`."""
        return self._pools.operations

    def length(self, seq: int) -> int:
        """Tokens held."""
        return self._tables[0].length(seq)

    def expect(self, seq: int, prompt_tokens: int, new_tokens: int) -> None:
        """A policy that reserves ahead reserves as much as this asks for."""
        for tables in self._tables:
            if isinstance(tables, ReservedTables):
                tables.expect(seq, prompt_tokens, new_tokens)

    def match(self, seq: int, tokens: list[int]) -> int:
        """Hold the blocks of an equal beginning, where they are kept."""
        return self._tables[0].match(seq, tokens)

    def reserve(self, seq: int, count: int) -> bool:
        """Blocks for `count` more tokens, all or nothing in every table; shared ones are copied."""
        tables = self._tables
        if len(tables) > 1 and any(t.wanted(seq, count) > t.blocks.available for t in tables):
            return False
        for index, table in enumerate(tables):
            copies = table.reserve(seq, count)
            if copies is None:
                return False
            if copies:
                self._copy(index, copies)
        return True

    def extend(self, seqs: Collection[int]) -> bool:
        """Blocks for one more token of each; False where one finds none."""
        for index, tables in enumerate(self._tables):
            copies, complete = tables.extend(seqs)
            if copies:
                self._copy(index, copies)
            if not complete:
                return False
        return True

    def _copy(self, index: int, copies: Copies) -> None:
        """Copy blocks of all groups behind one kind of table."""
        self._pools.copy([g for g, kind in enumerate(self._class) if kind == index], copies)

    def begin(self, batch: RaggedBatch) -> None:
        """A forward starts: what it needs of the tables is worked out once, on demand."""
        self._batch = batch
        self._places.clear()
        self._gathers.clear()
        self._joined.clear()

    def append(self, group: int, streams: tuple[Tensor, ...]) -> None:
        """Write this batch's entries, each stream [T, K, H]."""
        self._pools.write(group, self._places_of(self._class[group]), streams)

    def _places_of(self, index: int) -> tuple[Tensor, Tensor]:
        """Block and place in it of each of the batch's rows, [T] each."""
        if index not in self._places:
            batch, tables, size = self._batch, self._tables[index], self._block
            assert batch is not None
            blocks: list[int] = []
            offsets: list[int] = []
            # Places in the sequence, not rope positions: a tree has equal positions.
            for seq, context, end in zip(batch.seqs, batch.context_lens, batch.lens, strict=True):
                held = tables[seq].blocks
                blocks += [held[place // size] for place in range(context, end)]
                offsets += [place % size for place in range(context, end)]
            self._places[index] = (
                torch.tensor(blocks, device=self._pools.device),
                torch.tensor(offsets, device=self._pools.device),
            )
        return self._places[index]

    def destinations(self, group: int) -> Destinations | None:
        """Block and place in it of each of the batch's rows."""
        return Destinations(self._pools.of[group], *self._places_of(self._class[group]))

    def read(self, group: int, i: int) -> tuple[tuple[Tensor, ...], int]:
        """Everything of sequence i with this batch's rows, joined [K, S, H]; the first place."""
        batch, index = self._batch, self._class[group]
        assert batch is not None
        table = self._tables[index][batch.seqs[i]]
        start = table.dropped * self._block
        key = (index, i)
        if key not in self._gathers:
            held = table.blocks[table.dropped : -(-batch.lens[i] // self._block)]
            self._gathers[key] = torch.tensor(held, device=self._pools.device)
        return self._pools.joined(group, self._gathers[key], batch.lens[i] - start), start

    def pages(self, group: int) -> Pages | None:
        """The pools, and the batch's tables padded to the longest."""
        batch, index = self._batch, self._class[group]
        assert batch is not None
        if index not in self._joined:
            longest = -(-max(batch.lens) // self._block)
            table = padded([self._tables[index][seq].blocks for seq in batch.seqs], longest)
            lens = torch.tensor(batch.lens, dtype=torch.int32, device=self._pools.device)
            self._joined[index] = (table.to(self._pools.device), lens)
        return Pages(self._pools.of[group], *self._joined[index], max(batch.lens))

    def advance(self, batch: RaggedBatch) -> None:
        """The batch's rows are now held, tentatively."""
        for tables in self._tables:
            for i, (seq, length) in enumerate(zip(batch.seqs, batch.lens, strict=True)):
                tables.advance(seq, length, batch.tokens[batch.rows(i)] if self._share else ())

    def rewind(self, seq: int, length: int) -> int:
        """Forget from `length` on."""
        for tables in self._tables:
            tables.rewind(seq, length)
        return self.length(seq)

    def select(self, seq: int, start: int, kept: list[int]) -> None:
        """Move the kept rows down to follow `start`."""
        for index, tables in enumerate(self._tables):
            blocks = torch.tensor(tables[seq].blocks, device=self._pools.device)
            source = torch.tensor(kept, dtype=torch.int64, device=self._pools.device) + start
            target = torch.arange(start, start + len(kept), device=self._pools.device)
            for group, kind in enumerate(self._class):
                if kind == index:
                    self._pools.move(group, blocks, source, target)
            tables.select(seq, start, kept)

    def settle(self, seq: int) -> None:
        """Everything held is final: give back surplus blocks and those left of a window."""
        for tables in self._tables:
            tables.settle(seq)

    def fork(self, source: int, target: int) -> bool:
        """Share the source's blocks until one of the two writes, where they are not reserved."""
        for index, tables in enumerate(self._tables):
            copies = tables.fork(source, target)
            if copies is None:
                self.free(target)
                return False
            if copies:
                self._copy(index, copies)
        return True

    def free(self, seq: int) -> None:
        """Give the sequence's blocks back."""
        for tables in self._tables:
            tables.free(seq)

    def export(self, seq: int) -> Blob:
        """Copies in host memory of everything held."""
        return export(self._pools, self._of_groups(), seq)

    def import_(self, seq: int, blob: Blob) -> bool:
        """Take over an exported sequence, into blocks of its own."""
        length, size = blob["length"], self._block
        tokens = blob["tokens"] if self._share else ()
        for index, tables in enumerate(self._tables):
            gone = blob["starts"][self._class.index(index)] // size
            if not tables.adopt(seq, length, gone, tokens):
                self.free(seq)
                return False
        load(self._pools, self._of_groups(), seq, blob)
        return True

    def _of_groups(self) -> list[Tables | ReservedTables]:
        """The tables of each group."""
        return [self._tables[kind] for kind in self._class]

    def reset(self) -> None:
        """Forget every sequence, and what could be found."""
        self._tables = [self._made(window) for window in self._windows]

    def _made(self, window: int | None) -> Tables | ReservedTables:
        policy, limits = self._options.reservation, self._limits
        if policy == "demand":
            return Tables(self._count, self._block, window, share=self._share)
        capacity = limits.max_tokens + limits.lookahead
        return ReservedTables(self._count, self._block, policy, capacity, limits.lookahead)

    def longest(self) -> int:
        """Tokens of the longest sequence that fits when it is alone."""
        return min(tables.longest() for tables in self._tables) - self._limits.lookahead

    def room(self) -> int:
        """Places in blocks that can be taken, idle ones with them."""
        return min(tables.blocks.available for tables in self._tables) * self._block

    def counters(self) -> dict[str, int]:
        """Of the first kind of table, see `accounting.counters`."""
        return counters(self._tables[0])

    def held_bytes(self) -> int:
        """Bytes of the entries held, each once however many sequences share it."""
        places = [filled(tables) for tables in self._of_groups()]
        return sum(count * size for count, size in zip(places, self._entry_bytes, strict=True))

    def reserved_bytes(self) -> int:
        """Bytes of the pools."""
        return self._pools.bytes
