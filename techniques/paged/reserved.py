"""Tables whose sequences reserve one run of adjacent blocks for all that they may ever hold.

What servers did before paging: Orca's three policies as PagedAttention's authors compare with them
(arXiv:2309.06180, 6.1). `max` reserves the longest sequence there may be, `pow2` the prompt and the
next power of two of what will really be generated, `oracle` exactly what will be.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from harness.techniques.paged.buddy import Buddy, power
from harness.techniques.paged.table import Table
from harness.techniques.paged.tables import Copies

Policy = Literal["max", "pow2", "oracle"]


def places(policy: Policy, prompt_tokens: int, new_tokens: int, capacity: int) -> int:
    """How many tokens a policy makes room for. The last one is never held."""
    if policy == "max":
        return capacity
    asked = power(new_tokens) if policy == "pow2" else new_tokens
    return min(capacity, prompt_tokens + asked - 1)


class ReservedTables:
    """As `Tables`, for caches that reserve: nothing is shared, nothing given back before the end.

    Args:
        count: blocks in the pool.
        size: tokens a block.
        policy: how much a sequence reserves.
        capacity: tokens of the longest sequence there may be.
        lookahead: most tokens of a sequence beyond what it will keep.
    """

    def __init__(
        self, count: int, size: int, policy: Policy, capacity: int, lookahead: int
    ) -> None:
        self.size = size
        self.blocks = Buddy(count)
        self.window = None
        self.copied = 0
        self._policy: Policy = policy
        self._capacity = capacity
        self._lookahead = lookahead
        self._tables: dict[int, Table] = {}
        self._expected: dict[int, int] = {}

    def __contains__(self, seq: int) -> bool:
        return seq in self._tables

    def __getitem__(self, seq: int) -> Table:
        return self._tables[seq]

    def __iter__(self) -> Iterator[int]:
        return iter(self._tables)

    def expect(self, seq: int, prompt_tokens: int, new_tokens: int) -> None:
        """How long a sequence will become at most; without this it reserves the whole capacity."""
        wanted = places(self._policy, prompt_tokens, new_tokens, self._capacity)
        self._expected[seq] = min(self._capacity, wanted + self._lookahead)

    def length(self, seq: int) -> int:
        """Tokens held."""
        table = self._tables.get(seq)
        return 0 if table is None else table.length

    def wanted(self, seq: int, count: int) -> int:
        """Blocks that `reserve` would take."""
        return 0 if seq in self._tables else power(self._blocks_of(seq, count))

    def _blocks_of(self, seq: int, count: int) -> int:
        return max(1, -(-max(count, self._expected.get(seq, self._capacity)) // self.size))

    def reserve(self, seq: int, count: int) -> Copies | None:
        """Room for `count` more tokens: at first for all that may come, later only what that is."""
        table = self._tables.get(seq)
        if table is None:
            start = self.blocks.take(self._blocks_of(seq, count))
            if start is None:
                return None
            held = array("i", range(start, start + self.blocks.taken(start)))
            self._tables[seq] = Table(held, room=len(held) * self.size)
            return ()
        return () if table.length + count <= table.room else None

    def extend(self, seqs: Iterable[int]) -> tuple[Copies, bool]:
        """Room for one more token of each."""
        return (), all(self.reserve(seq, 1) is not None for seq in seqs)

    def advance(self, seq: int, length: int, tokens: Sequence[int] = ()) -> None:
        """The sequence now holds `length` tokens."""
        del tokens
        self._tables[seq].length = length

    def rewind(self, seq: int, length: int) -> None:
        """Forget from `length` on."""
        if seq in self._tables:
            self._tables[seq].length = min(self._tables[seq].length, length)

    def select(self, seq: int, start: int, kept: Sequence[int]) -> None:
        """The tokens at `start + kept` now follow `start`."""
        self._tables[seq].length = start + len(kept)

    def settle(self, seq: int) -> None:
        """What is reserved stays so."""

    def match(self, seq: int, tokens: Sequence[int]) -> int:
        """Nothing is shared."""
        del seq, tokens
        return 0

    def fork(self, source: int, target: int) -> Copies | None:
        """A run of its own for `target`, and what to copy into it; None without room."""
        table = self._tables.get(source)
        if table is None:
            return ()
        self._expected[target] = self._expected.get(source, self._capacity)
        if self.reserve(target, table.length) is None:
            return None
        own = self._tables[target]
        own.length = table.length
        used = -(-table.length // self.size)
        self.copied += used
        return [*zip(table.blocks[:used], own.blocks[:used], strict=True)]

    def adopt(self, seq: int, length: int, dropped: int, tokens: Sequence[int] = ()) -> bool:
        """A run for a sequence that comes with `length` tokens; False without room."""
        del dropped, tokens
        if self.reserve(seq, length) is None:
            return False
        self._tables[seq].length = length
        return True

    def free(self, seq: int) -> None:
        """Give the run back."""
        table = self._tables.pop(seq, None)
        if table is not None:
            self.blocks.give(table.blocks[0])

    def longest(self) -> int:
        """Tokens of the longest sequence that fits when it is alone."""
        largest = 1 << (self.blocks.count.bit_length() - 1)
        return largest * self.size

    def check(self) -> None:
        """AssertionError where tables and runs disagree."""
        self.blocks.check()
        for seq, table in self._tables.items():
            first, count = table.blocks[0], len(table.blocks)
            assert table.blocks.tolist() == list(range(first, first + count)), f"run of {seq}"
            assert count == self.blocks.taken(first), f"run of {seq}"
            assert table.length <= table.room == count * self.size, f"room of {seq}"
        assert self.blocks.held == sum(len(t.blocks) for t in self._tables.values()), "a leak"
