"""The contract tests see what they are for: planted faults fail them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from torch import Tensor

from harness.model.batch import RaggedBatch
from harness.techniques.contiguous.store import ContiguousStore
from harness.techniques.static.reference import check

if TYPE_CHECKING:
    from tests.techniques.conftest import Twins


class RowsAsPlaces(ContiguousStore):
    """Writes a forward's rows from place 0 on."""

    def begin(self, batch: RaggedBatch) -> None:
        super().begin(batch)
        self._place = self._places = None

    def append(self, group: int, streams: tuple[Tensor, ...]) -> None:
        batch = self._batch
        assert batch is not None
        for pool, rows in zip(self._pools[group], streams, strict=True):
            for i, slot in enumerate(self._batch_slots):
                pool[slot, :, : batch.query_len(i)] = rows[batch.rows(i)].transpose(0, 1)


class SelectsTheFirst(ContiguousStore):
    """Keeps as many rows as asked, but the first ones."""

    def select(self, seq: int, start: int, kept: list[int]) -> None:
        self._length[seq] = start + len(kept)


class SelectsOneStream(ContiguousStore):
    """Moves keys and leaves values where they are."""

    def select(self, seq: int, start: int, kept: list[int]) -> None:
        pools = self._pools
        self._pools = {group: streams[:1] for group, streams in pools.items()}
        super().select(seq, start, kept)
        self._pools = pools


class NeverRewinds(ContiguousStore):
    """Holds on to what was rejected."""

    def rewind(self, seq: int, length: int) -> int:
        return length


class SharesForks(ContiguousStore):
    """A fork writes into its source."""

    def fork(self, source: int, target: int) -> bool:
        self._slot[target] = self._slot[source]
        self._length[target] = self.length(source)
        return True


class Leaks(ContiguousStore):
    """Gives no slot back."""

    def free(self, seq: int) -> None:
        self._slot.pop(seq, None)
        self._length.pop(seq, None)


class DropsOne(ContiguousStore):
    """Loses the last token that is exported."""

    def export(self, seq: int) -> dict[str, Any]:
        blob = super().export(seq)
        if blob["length"]:
            blob["length"] -= 1
            streams = blob["streams"].items()
            blob["streams"] = {group: tuple(s[:, :-1] for s in parts) for group, parts in streams}
        return blob


class ForgetsUnsettled(ContiguousStore):
    """Gives up what left a window as soon as it is appended, so that a rewind comes too late."""

    def advance(self, batch: RaggedBatch) -> None:
        super().advance(batch)
        for seq in batch.seqs:
            self.settle(seq)


class KeepsTooFew(ContiguousStore):
    """Holds one entry fewer than the next row sees beside itself."""

    def settle(self, seq: int) -> None:
        for windowed in self._windowed.values():
            windowed._window -= 2
        super().settle(seq)
        for windowed in self._windowed.values():
            windowed._window += 2


class ForgetsTheTable(ContiguousStore):
    """Gives kernels the pages of the forward before."""

    def pages(self, group: int) -> Any:
        pages = super().pages(group)
        if pages is None:
            return None
        return type(pages)(pages.pools, pages.table.roll(1, 0), pages.lens, pages.max_len)


@pytest.mark.parametrize(
    "store",
    [
        RowsAsPlaces,
        SelectsTheFirst,
        SelectsOneStream,
        NeverRewinds,
        SharesForks,
        Leaks,
        DropsOne,
        ForgetsTheTable,
        ForgetsUnsettled,
        KeepsTooFew,
    ],
)
def test_a_wrong_store_fails(twins: Twins, store: type[ContiguousStore]) -> None:
    with pytest.raises((AssertionError, KeyError, ValueError)):
        _drive(twins, store)


def test_the_right_store_passes_the_same(twins: Twins) -> None:
    _drive(twins, ContiguousStore)


def _drive(twins: Twins, store: type[ContiguousStore]) -> None:
    for seed in range(20):
        rng = random.Random(seed)
        twins.contiguous(store).apply(
            [(rng.choice(twins.verbs), rng.randrange(5), rng.randrange(1000)) for _ in range(25)]
        )


SERVED = [
    (1, "admitted", 0),
    (1, "admitted", 1),
    (3, "finished", 1),
    (5, "finished", 0),
    (6, "admitted", 2),
    (7, "finished", 2),
]


def test_a_static_schedule_passes_its_check() -> None:
    check(SERVED)


@pytest.mark.parametrize(
    ("events", "objection"),
    [
        ([*SERVED[:3], (4, "admitted", 2), *SERVED[3:4]], "joined a running batch"),
        (SERVED[:-1], "never finished"),
        ([(1, "admitted", 1), (2, "finished", 1), *SERVED[4:], (8, "admitted", 0),
          (9, "finished", 0)], "out of order"),
    ],
    ids=["joins", "never-ends", "overtakes"],
)  # fmt: skip
def test_a_wrong_static_schedule_fails_its_check(
    events: list[tuple[int, str, int]], objection: str
) -> None:
    with pytest.raises(AssertionError, match=objection):
        check(events)
