"""Numbered blocks of a cache: who holds them, what is in them, which is given up next.

Plain Python without a tensor. Source: PagedAttention, arXiv:2309.06180, sections 4.2 to 4.4. A
block is in one of three states: free, held by one or more sequences, or idle: held by nobody, but
full of content that has a name, so that a later sequence may find it. Idle blocks are given up,
least recently used first, when no free one is left.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Sequence


def chain(before: bytes, tokens: Sequence[int]) -> bytes:
    """The name of a block's content: of these tokens behind a block of that name (b"": first).

    Two contents of one name would be served for each other without a sign, hence a cryptographic
    digest and not Python's hash of 64 bits, whose collisions can be made on purpose.
    """
    return hashlib.blake2b(before + array("q", tokens).tobytes(), digest_size=16).digest()


class Blocks:
    """A pool of `count` blocks, numbered from 0. Freeing what is free raises AssertionError."""

    def __init__(self, count: int) -> None:
        self.count = count
        # Read by the tables' quick paths, written here alone.
        self.references = [0] * count
        self.names: list[bytes | None] = [None] * count
        self.evictions = 0
        # Lowest first, so that a fresh pool is filled in order.
        self._free = list(range(count))[::-1]
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._found: dict[bytes, int] = {}

    @property
    def available(self) -> int:
        """Blocks that can be taken: free and idle ones."""
        return len(self._free) + len(self._idle)

    @property
    def held(self) -> int:
        """Blocks that at least one sequence holds."""
        return self.count - len(self._free) - len(self._idle)

    @property
    def idle(self) -> int:
        """Blocks that nobody holds and that can still be found."""
        return len(self._idle)

    def take(self) -> int:
        """A block without content, held once. IndexError when none is available."""
        if self._free:
            block = self._free.pop()
        elif self._idle:
            block, _ = self._idle.popitem(last=False)
            self.forget(block)
            self.evictions += 1
        else:
            raise IndexError("no block is left")
        self.references[block] = 1
        return block

    def share(self, block: int) -> None:
        """One more holder of a block that is held or idle."""
        if self.references[block] == 0:
            del self._idle[block]
        self.references[block] += 1

    def give(self, block: int) -> None:
        """One holder less. Content with a name can be found until the block is taken again."""
        references = self.references
        assert references[block] > 0, f"block {block} is given back twice"
        references[block] -= 1
        if references[block] == 0:
            if self.names[block] is None:
                self._free.append(block)
            else:
                self._idle[block] = None

    def find(self, name: bytes) -> int | None:
        """The block with this content, which is then held once more; None when there is none."""
        block = self._found.get(name)
        if block is not None:
            self.share(block)
        return block

    def name(self, block: int, name: bytes) -> None:
        """Say what a full block holds. Where equal content has the name already, it keeps it."""
        if name not in self._found:
            self._found[name] = block
            self.names[block] = name

    def forget(self, block: int) -> None:
        """The block's content is about to change: it can no longer be found."""
        name = self.names[block]
        if name is not None:
            del self._found[name]
            self.names[block] = None

    def check(self) -> None:
        """AssertionError where the three states and the names do not agree."""
        free, idle = set(self._free), set(self._idle)
        assert len(free) == len(self._free), "a block is free twice"
        assert not free & idle, "a block is free and idle"
        for block, references in enumerate(self.references):
            assert (references == 0) == (block in free or block in idle), f"block {block} is lost"
            named = self.names[block]
            assert named is None or self._found[named] == block, f"block {block} is not found"
        assert all(self.names[block] is None for block in free), "a free block has a name"
        assert all(self.names[block] is not None for block in idle), "an idle block has none"
        assert len(self._found) == sum(name is not None for name in self.names)
