"""A token store that holds nothing: its length is always 0, so the engine feeds everything."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.engine.store import Blob, Destinations, Pages
from harness.model.batch import RaggedBatch
from harness.plan import Limits
from harness.shape import TokenState
from harness.technique import TechniqueOptions


class RecomputeStore:
    """Keeps the entries of the current forward only, for the layers that read them."""

    def __init__(
        self,
        groups: list[TokenState],  # noqa: ARG002 - the slot's factory signature
        limits: Limits,  # noqa: ARG002
        *,
        dtype: torch.dtype,  # noqa: ARG002
        device: str,  # noqa: ARG002
        options: TechniqueOptions | None = None,  # noqa: ARG002
    ) -> None:
        self._now: dict[int, tuple[Tensor, ...]] = {}
        self._batch: RaggedBatch | None = None
        self._table: tuple[Tensor, Tensor, int] | None = None

    def length(self, seq: int) -> int:
        """Nothing is ever held."""
        del seq
        return 0

    def match(self, seq: int, tokens: list[int]) -> int:
        """Nothing to share."""
        del seq, tokens
        return 0

    def reserve(self, seq: int, count: int) -> bool:
        """There is always room for nothing."""
        del seq, count
        return True

    def begin(self, batch: RaggedBatch) -> None:
        """A forward starts."""
        self._batch = batch
        self._table = None

    def append(self, group: int, streams: tuple[Tensor, ...]) -> None:
        """Keep this batch's entries for this forward."""
        self._now[group] = streams

    def destinations(self, group: int) -> Destinations | None:
        """Rows are kept as they come."""
        del group
        return None

    def read(self, group: int, i: int) -> tuple[tuple[Tensor, ...], int]:
        """This forward's entries of sequence i, [K, T, H]."""
        assert self._batch is not None
        rows = self._batch.rows(i)
        return tuple(stream[rows].transpose(0, 1) for stream in self._now[group]), 0

    def pages(self, group: int) -> Pages | None:
        """Entries lie loose, sequence behind sequence: every row is a page."""
        batch = self._batch
        assert batch is not None
        if self._table is None:
            longest = max(batch.lens)
            first = torch.tensor(batch.cu_seqlens[:-1], dtype=torch.int32)[:, None]
            # Past a sequence's last row any row will do, its neighbour's or the batch's last.
            rows = first + torch.arange(longest, dtype=torch.int32)
            table = rows.clamp(max=batch.cu_seqlens[-1] - 1).to(batch.device)
            lens = torch.tensor(batch.lens, dtype=torch.int32, device=batch.device)
            self._table = (table, lens, longest)
        pools = tuple(stream.unsqueeze(2) for stream in self._now[group])  # [T, K, 1, H]
        return Pages(pools, *self._table)

    def advance(self, batch: RaggedBatch) -> None:
        """The forward is over: forget its entries."""
        del batch
        self._now.clear()

    def rewind(self, seq: int, length: int) -> int:
        """There is nothing to rewind."""
        del seq, length
        return 0

    def select(self, seq: int, start: int, kept: list[int]) -> None:
        """There is nothing to select from: accepted tokens are fed again."""

    def settle(self, seq: int) -> None:
        """Nothing is held."""

    def fork(self, source: int, target: int) -> bool:
        """Nothing to copy."""
        del source, target
        return True

    def free(self, seq: int) -> None:
        """Nothing is held."""

    def export(self, seq: int) -> Blob:
        """Nothing to take along."""
        del seq
        return {}

    def import_(self, seq: int, blob: Blob) -> bool:
        """Nothing to take over."""
        del seq, blob
        return True

    def reset(self) -> None:
        """Forget the current forward."""
        self._now.clear()

    def held_bytes(self) -> int:
        """Nothing is held between steps."""
        return 0

    def reserved_bytes(self) -> int:
        """Nothing is reserved."""
        return 0
