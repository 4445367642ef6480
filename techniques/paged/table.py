"""One sequence's block table: where its tokens lie, and what is known of the blocks."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field


@dataclass(slots=True)
class Table:
    """One sequence. Block j holds the places from j * size on."""

    blocks: array[int] = field(default_factory=lambda: array("i"))
    length: int = 0  # tokens held
    room: int = 0  # places in the blocks
    dropped: int = 0  # leading blocks that are given back: everything in them left the window
    # A block that the next tokens go into may be shared, or may have a name.
    suspect: bool = False
    tokens: list[int] = field(default_factory=list)  # what is held, where content is named
    names: list[bytes] = field(default_factory=list)  # of the leading full blocks

    def drop(self, window: int, size: int) -> list[int]:
        """Take out what only tokens left of the last `window` lie in; the blocks to give back."""
        gone = max(0, self.length - window) // size
        found = [*self.blocks[self.dropped : gone]]
        for j in range(self.dropped, gone):
            # Kernels may read through the table before they mask: any valid number will do.
            self.blocks[j] = 0
        self.dropped = max(self.dropped, gone)
        return found

    def forked(self, size: int) -> Table:
        """The same tokens in the same blocks. From now on both may write into shared ones."""
        keep = -(-self.length // size)
        self.suspect = True
        tokens, names = [*self.tokens], [*self.names]
        held = self.blocks[:keep]
        return Table(held, self.length, keep * size, self.dropped, True, tokens, names)
