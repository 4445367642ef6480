"""Contiguous, but every entry goes through eight bits."""

from __future__ import annotations

from torch import Tensor

from harness.techniques.contiguous.store import ContiguousStore


class RoundedStore(ContiguousStore):
    """Each number becomes a multiple of a 64th."""

    def append(self, group: int, streams: tuple[Tensor, ...]) -> None:
        """Round, then write."""
        super().append(group, tuple((stream * 64).round() / 64 for stream in streams))
