"""Block tables: which blocks a sequence's tokens lie in, in the order of its tokens.

Plain Python without a tensor: who copies and writes is told where. Source: PagedAttention,
arXiv:2309.06180, 4.2 (on demand), 4.4 (copy-on-write), and 4.5 (swapping, by `adopt`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence

from harness.techniques.paged.blocks import Blocks, chain
from harness.techniques.paged.table import Table

Copies = Sequence[tuple[int, int]]  # (from, to): blocks to copy before anything is written
_NONE: Copies = ()


class Tables:
    """All sequences over one pool of blocks of `size` places each.

    Args:
        count: blocks in the pool.
        size: tokens a block.
        window: places further left than this are never read again; their blocks are given back.
        share: give full blocks names by their content, so that `match` finds them.
    """

    def __init__(
        self, count: int, size: int, window: int | None = None, *, share: bool = False
    ) -> None:
        assert window is None or not share, "a block whose left neighbours are gone is no prefix"
        self.size = size
        self.blocks = Blocks(count)
        self.copied = 0
        self.window = window
        self._share = share
        self._tables: dict[int, Table] = {}

    def __contains__(self, seq: int) -> bool:
        return seq in self._tables

    def __getitem__(self, seq: int) -> Table:
        return self._tables[seq]

    def __iter__(self) -> Iterator[int]:
        return iter(self._tables)

    def length(self, seq: int) -> int:
        """Tokens held."""
        table = self._tables.get(seq)
        return 0 if table is None else table.length

    def wanted(self, seq: int, count: int) -> int:
        """Blocks that `reserve` would take."""
        table = self._tables.get(seq) or Table()
        end = table.length + count
        return max(0, -(-end // self.size) - len(table.blocks)) + len(self._shared(table, end))

    def reserve(self, seq: int, count: int) -> Copies | None:
        """Make room for `count` more tokens, all or nothing; None when there is none.

        Blocks that would be written and that others hold too are replaced by copies: copy them
        before writing. A block that had a name loses it.
        """
        table = self._tables.get(seq)
        if table is not None and table.length + count <= table.room and not table.suspect:
            return _NONE
        return self._reserve(seq, table or Table(), count)

    def extend(self, seqs: Iterable[int]) -> tuple[Copies, bool]:
        """`reserve` for one more token of each of these, which are all there.

        False where one finds no room; the copies are then those of the sequences before it.
        """
        tables = self._tables
        copies: list[tuple[int, int]] = []
        for seq in seqs:
            table = tables[seq]
            if table.length == table.room or table.suspect:
                found = self._reserve(seq, table, 1)
                if found is None:
                    return copies, False
                copies += found
        return copies, True

    def _reserve(self, seq: int, table: Table, count: int) -> Copies | None:
        size, pool, held = self.size, self.blocks, table.blocks
        end = table.length + count
        need = -(-end // size)
        shared = self._shared(table, end)
        more = max(0, need - len(held))
        if more + len(shared) > pool.available:
            return None
        copies: Copies = _NONE
        if table.suspect:
            copies = self._make_own(table, need, shared)
        held.extend([pool.take() for _ in range(more)])
        table.room = len(held) * size
        self._tables[seq] = table
        return copies

    def _shared(self, table: Table, end: int) -> list[int]:
        """Which of the table's blocks will be written and are held by others too."""
        if not table.suspect:
            return []
        first, last = table.length // self.size, min(-(-end // self.size), len(table.blocks))
        references = self.blocks.references
        return [j for j in range(first, last) if references[table.blocks[j]] > 1]

    def _make_own(self, table: Table, need: int, shared: list[int]) -> Copies:
        """Leave the table with blocks from its end on that nobody else holds and none can find."""
        pool, held, size = self.blocks, table.blocks, self.size
        copies = []
        for j in shared:
            old, held[j] = held[j], pool.take()
            # Behind the sequence's end there is nothing to copy.
            if j * size < table.length:
                copies.append((old, held[j]))
            pool.give(old)
        for block in held[table.length // size : need]:
            pool.forget(block)
        while len(held) > need:
            pool.give(held.pop())
        table.suspect = False
        self.copied += len(copies)
        return copies

    def advance(self, seq: int, length: int, tokens: Sequence[int] = ()) -> None:
        """The sequence now holds `length` tokens; these are the new ones, where content matters."""
        table = self._tables[seq]
        table.length = length
        if self._share:
            table.tokens += tokens

    def rewind(self, seq: int, length: int) -> None:
        """Forget from `length` on. Room stays."""
        table = self._tables.get(seq)
        if table is None or length >= table.length:
            return
        assert length >= table.dropped * self.size, "what left the window cannot be read again"
        table.length = length
        table.suspect = True
        del table.tokens[length:]
        del table.names[length // self.size :]

    def select(self, seq: int, start: int, kept: Sequence[int]) -> None:
        """The tokens at `start + kept` now follow `start`; whoever holds the entries moves them."""
        table = self._tables[seq]
        assert not table.suspect, "rows are moved only in the blocks that a forward just wrote"
        if self._share:
            tail = table.tokens[start:]
            table.tokens[start:] = [tail[k] for k in kept]
        table.length = start + len(kept)

    def settle(self, seq: int) -> None:
        """All that is held is final: surplus blocks and those left of the window go back, and full
        ones get names."""
        table = self._tables.get(seq)
        if table is None:
            return
        size, length = self.size, table.length
        if table.room - length >= size:
            keep = -(-length // size)
            while len(table.blocks) > keep:
                self.blocks.give(table.blocks.pop())
            table.room = keep * size
        if self._share and (len(table.names) + 1) * size <= length:
            self._name(table)
        if self.window is not None:
            for block in table.drop(self.window, self.size):
                self.blocks.give(block)

    def _name(self, table: Table) -> None:
        for j in range(len(table.names), table.length // self.size):
            before = table.names[-1] if table.names else b""
            name = chain(before, table.tokens[j * self.size : (j + 1) * self.size])
            self.blocks.name(table.blocks[j], name)
            table.names.append(name)

    def match(self, seq: int, tokens: Sequence[int]) -> int:
        """Hold the named blocks that these tokens begin with; how many tokens that are.

        At least one token stays to be fed, or nothing would decide what follows.
        """
        if not self._share or seq in self._tables:
            return 0
        table, size = Table(), self.size
        for start in range(0, (len(tokens) - 1) // size * size, size):
            before = table.names[-1] if table.names else b""
            name = chain(before, tokens[start : start + size])
            block = self.blocks.find(name)
            if block is None:
                break
            table.blocks.append(block)
            table.names.append(name)
        table.length = table.room = len(table.blocks) * size
        if table.length:
            table.tokens += tokens[: table.length]
            self._tables[seq] = table
        return table.length

    def fork(self, source: int, target: int) -> Copies | None:
        """Let `target` hold the same tokens in the same blocks. Needs no room until one writes."""
        table = self._tables.get(source)
        if table is None:
            return _NONE
        fork = self._tables[target] = table.forked(self.size)
        for block in fork.blocks[fork.dropped :]:
            self.blocks.share(block)
        return _NONE

    def adopt(self, seq: int, length: int, dropped: int, tokens: Sequence[int] = ()) -> bool:
        """Room for a sequence that comes with `length` tokens, all but the `dropped` leading
        blocks; False when there is none."""
        need = -(-length // self.size)
        if need - dropped > self.blocks.available:
            return False
        taken = [self.blocks.take() for _ in range(dropped, need)]
        held = array("i", [0] * dropped + taken)
        self._tables[seq] = Table(held, length, need * self.size, dropped, tokens=[*tokens])
        return True

    def free(self, seq: int) -> None:
        """Forget the sequence. Its last blocks will be given up before its first ones, which more
        prompts begin with."""
        table = self._tables.pop(seq, None)
        if table is not None:
            for block in reversed(table.blocks[table.dropped :]):
                self.blocks.give(block)

    def longest(self) -> int:
        """Tokens of the longest sequence that fits when it is alone."""
        return self.blocks.count * self.size

    def check(self) -> None:
        """AssertionError where tables and the pool's counts disagree."""
        counted = [0] * self.blocks.count
        for seq, table in self._tables.items():
            assert table.room == len(table.blocks) * self.size >= table.length, f"room of {seq}"
            for block in table.blocks[table.dropped :]:
                counted[block] += 1
        assert counted == self.blocks.references, "references do not count the tables"
        self.blocks.check()
