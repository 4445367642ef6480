"""Runs of adjacent blocks, in powers of two that split and merge: the buddy allocator.

Source: Knowlton, "A fast storage allocator", CACM 1965. What PagedAttention's authors took Orca's
memory to be managed by (arXiv:2309.06180, 6.1).
"""

from __future__ import annotations


def power(count: int) -> int:
    """The smallest power of two that is not below a count of at least one."""
    return 1 << (count - 1).bit_length()


class Buddy:
    """A pool of `count` adjacent blocks, of which runs are taken; it counts as `Blocks` does.

    A pool that is no power of two begins as the powers that add up to it, the largest first, so
    that each run starts at a multiple of its size.
    """

    idle = evictions = 0

    def __init__(self, count: int) -> None:
        self.count = count
        self.held = 0
        self._free: dict[int, set[int]] = {}  # starts of free runs by their size
        self._size: dict[int, int] = {}  # of each run that is taken, by its start
        start = 0
        for bit in reversed(range(count.bit_length())):
            if count >> bit & 1:
                self._free.setdefault(1 << bit, set()).add(start)
                start += 1 << bit

    @property
    def available(self) -> int:
        """Blocks that are free, adjacent or not."""
        return self.count - self.held

    @property
    def largest(self) -> int:
        """Blocks of the largest run that can be taken; 0 where none can."""
        return max((size for size, starts in self._free.items() if starts), default=0)

    def take(self, count: int) -> int | None:
        """The first of at least `count` adjacent blocks; None where no run is long enough."""
        wanted = power(count)
        fitting = [size for size, starts in self._free.items() if size >= wanted and starts]
        if not fitting:
            return None
        size = min(fitting)
        start = min(self._free[size])
        self._free[size].remove(start)
        while size > wanted:
            size //= 2
            self._free.setdefault(size, set()).add(start + size)
        self._size[start] = size
        self.held += size
        return start

    def taken(self, start: int) -> int:
        """Blocks of the run that starts there."""
        return self._size[start]

    def give(self, start: int) -> None:
        """Give a run back; AssertionError where none starts there."""
        assert start in self._size, f"no run starts at block {start}"
        size = self._size.pop(start)
        self.held -= size
        while start ^ size in self._free.get(size, set()):
            self._free[size].remove(start ^ size)
            start = min(start, start ^ size)
            size *= 2
        self._free.setdefault(size, set()).add(start)

    def check(self) -> None:
        """AssertionError where runs overlap, or blocks are lost."""
        runs = [(start, size) for size, starts in self._free.items() for start in starts]
        runs += list(self._size.items())
        end = 0
        for start, size in sorted(runs):
            assert start == end, f"block {min(start, end)} is lost or in two runs"
            end = start + size
        assert end == self.count, "blocks are lost at the end"
        assert self.held == sum(self._size.values()), "held blocks are counted wrongly"
