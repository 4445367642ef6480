"""Runs of adjacent blocks: nothing overlaps or is lost, and each policy reserves what it says."""

from __future__ import annotations

import random

import pytest

from harness.techniques.paged.buddy import Buddy, power
from harness.techniques.paged.reserved import Policy, ReservedTables, places
from harness.techniques.paged.tables import Tables


def _drive(buddy: type[Buddy]) -> None:
    for seed in range(6):
        draw = random.Random(seed)
        pool = buddy(draw.randrange(1, 70))
        taken: dict[int, int] = {}
        for _ in range(400):
            if taken and draw.random() < 0.45:
                pool.give(taken.pop(draw.choice([*taken])))
                continue
            count = draw.randrange(1, 12)
            largest = pool.largest
            start = pool.take(count)
            assert (start is None) == (power(count) > largest)
            if start is not None:
                own = set(range(start, start + count))
                assert not any(own & set(range(s, s + power(n))) for s, n in sizes(taken, pool))
                taken[start] = start
            pool.check()
        for start in [*taken]:
            pool.give(start)
        pool.check()
        assert pool.available == pool.count
        assert pool.largest == 1 << (pool.count.bit_length() - 1), "runs were not merged"


def sizes(taken: dict[int, int], pool: Buddy) -> list[tuple[int, int]]:
    return [(start, pool.taken(start)) for start in taken]


def test_runs_split_and_merge() -> None:
    _drive(Buddy)


class NeverMerges(Buddy):
    def give(self, start: int) -> None:
        size = self._size.pop(start)
        self.held -= size
        self._free.setdefault(size, set()).add(start)


class SplitsInTheMiddle(Buddy):
    def take(self, count: int) -> int | None:
        start = super().take(count)
        return None if start is None else start ^ 1


class ForgetsTheRest(Buddy):
    def take(self, count: int) -> int | None:
        before = {size: set(starts) for size, starts in self._free.items()}
        start = super().take(count)
        if start is not None and before != self._free and len(self._free) > 1:
            smallest = min(size for size, starts in self._free.items() if starts or size)
            self._free[smallest].clear()
        return start


@pytest.mark.parametrize("buddy", [NeverMerges, SplitsInTheMiddle, ForgetsTheRest])
def test_a_wrong_allocator_fails(buddy: type[Buddy]) -> None:
    with pytest.raises((AssertionError, KeyError)):
        _drive(buddy)


@pytest.mark.parametrize(("count", "found"), [(1, 1), (2, 2), (3, 4), (16, 16), (17, 32)])
def test_powers(count: int, found: int) -> None:
    assert power(count) == found


def test_what_each_policy_reserves() -> None:
    """The paper's example: a true output of 25 tokens reserves 32 places for it."""
    assert places("max", 40, 25, 2048) == 2048
    assert places("pow2", 40, 25, 2048) == 40 + 32 - 1
    assert places("oracle", 40, 25, 2048) == 40 + 25 - 1
    assert places("pow2", 2000, 33, 2048) == 2048


def _fitting(tables: ReservedTables | Tables) -> int:
    """Sequences of 40 + 25 tokens that can be there at once."""
    for seq in range(1000):
        if isinstance(tables, ReservedTables):
            tables.expect(seq, 40, 25)
        if tables.reserve(seq, 64) is None:
            return seq
        tables.advance(seq, 64)
    return 1000


def test_more_sequences_fit_the_less_is_reserved() -> None:
    policies: tuple[Policy, ...] = ("max", "pow2", "oracle")
    fit = [_fitting(ReservedTables(256, 8, policy, 512, 0)) for policy in policies]
    # 64 blocks each; 9, rounded to 16; 8; and 8 of any.
    assert [*fit, _fitting(Tables(256, 8))] == [4, 16, 32, 32]


def test_a_fork_and_a_swapped_sequence_need_a_run_of_their_own() -> None:
    tables = ReservedTables(16, 2, "oracle", 16, 0)
    tables.expect(0, 5, 4)
    assert tables.reserve(0, 5) == ()
    tables.advance(0, 5)
    # Three of the four blocks have something in them.
    assert tables.fork(0, 1) == [(0, 4), (1, 5), (2, 6)]
    assert tables.length(1) == 5
    tables.check()
    assert tables.reserve(2, 1) == ()
    assert tables.fork(0, 3) is None
    assert not tables.adopt(4, 5, 0)
    tables.free(2)
    assert tables.adopt(4, 5, 0)
    for seq in (0, 1, 4):
        tables.free(seq)
    tables.check()
    assert tables.blocks.available == 16


def test_what_does_not_fit_into_what_was_reserved_is_refused() -> None:
    tables = ReservedTables(8, 2, "oracle", 16, 0)
    tables.expect(0, 3, 2)
    assert tables.reserve(0, 4) == ()
    tables.advance(0, 4)
    assert tables.reserve(0, 1) is None
    tables.rewind(0, 2)
    assert tables.reserve(0, 2) == ()
