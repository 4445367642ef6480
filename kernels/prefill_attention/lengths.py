"""What the host knows of a batch's lengths, so that nobody has to wait for the device to tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from torch import Tensor


@dataclass(frozen=True)
class Lengths:
    """Rows that each sequence gives, and tokens that it holds with them."""

    rows: Sequence[int]  # B
    lens: Sequence[int]  # B

    @classmethod
    def read(cls, cu_seqlens: Tensor | None, lens: Tensor) -> Lengths:
        """Ask the device, and wait for it. Without `cu_seqlens` every sequence gives one row."""
        held = lens.tolist()
        if cu_seqlens is None:
            return cls([1] * len(held), held)
        bounds = cu_seqlens.tolist()
        return cls([b - a for a, b in pairwise(bounds)], held)

    @cached_property
    def max_rows(self) -> int:
        """Of the sequence that gives most."""
        return max(self.rows)

    @cached_property
    def max_len(self) -> int:
        """Of the sequence that holds most."""
        return max(self.lens)

    @cached_property
    def total_len(self) -> int:
        """Of all sequences."""
        return sum(self.lens)
