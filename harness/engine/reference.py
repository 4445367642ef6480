"""The plain twin of every token store: entries in Python lists, one list a sequence and stream."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.shape import TokenState


class PlainStore:
    """What a token store must hold, said in the simplest way. Slow, for tests only.

    A store under test is driven beside it with the same verbs; what both read must be equal.
    """

    def __init__(self, groups: list[TokenState]) -> None:
        self._groups = groups
        self._entries: dict[int, list[list[tuple[Tensor, ...]]]] = {}

    def length(self, seq: int) -> int:
        """Tokens held."""
        entries = self._entries.get(seq)
        return len(entries[0]) if entries else 0

    def append(self, seq: int, rows: list[tuple[Tensor, ...]]) -> None:
        """Append one forward's rows of a sequence: for each group its streams [T, heads, dim]."""
        entries = self._entries.setdefault(seq, [[] for _ in self._groups])
        for group, streams in enumerate(rows):
            entries[group] += list(zip(*(stream.unbind(0) for stream in streams), strict=True))

    def read(self, seq: int, group: int) -> tuple[Tensor, ...]:
        """Everything held, a stream each [heads, S, dim]."""
        entries = self._entries[seq][group]
        return tuple(torch.stack(stream, 1) for stream in zip(*entries, strict=True))

    def rewind(self, seq: int, length: int) -> None:
        """Forget from `length` on."""
        for entries in self._entries.get(seq, []):
            del entries[length:]

    def select(self, seq: int, start: int, kept: list[int]) -> None:
        """Keep only the rows at `start + kept` after `start`."""
        for entries in self._entries[seq]:
            entries[start:] = [entries[start + offset] for offset in kept]

    def fork(self, source: int, target: int) -> None:
        """Copy a sequence."""
        self._entries[target] = [list(entries) for entries in self._entries[source]]

    def free(self, seq: int) -> None:
        """Forget a sequence."""
        self._entries.pop(seq, None)
