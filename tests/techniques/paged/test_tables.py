"""Block tables beside a twin that remembers every token: 10,000 steps, and faults that it sees."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import hypothesis
import pytest
from hypothesis import stateful
from hypothesis import strategies as st

from harness.techniques.paged.blocks import Blocks, chain
from harness.techniques.paged.reference import Twin
from harness.techniques.paged.table import Table
from harness.techniques.paged.tables import Copies, Tables

# Some examples end early: about 42 steps each.
EXAMPLES, STEPS = 270, 50


class Machine(stateful.RuleBasedStateMachine):
    """Allocate, append, fork, free, swap and evict in any order over a small pool."""

    steps = 0

    @stateful.initialize(
        count=st.integers(4, 24), size=st.integers(1, 5), share=st.booleans(), swaps=st.booleans()
    )
    def begin(self, count: int, size: int, share: bool, swaps: bool) -> None:
        self.twin = Twin(Tables(count, size, share=share))
        self.swaps = swaps

    def _some(self, number: int) -> int | None:
        live = list(self.twin.remembered)
        return live[number % len(live)] if live else None

    @stateful.rule(head=st.integers(0, 9), tail=st.lists(st.integers(0, 1), min_size=1, max_size=6))
    def start(self, head: int, tail: list[int]) -> None:
        self.twin.start([0] * head + tail)

    @stateful.rule(which=st.integers(0, 50), tokens=st.lists(st.integers(0, 1), max_size=7))
    def append(self, which: int, tokens: list[int]) -> None:
        seq = self._some(which)
        if seq is not None:
            self.twin.feed(seq, tokens)

    @stateful.rule(which=st.integers(0, 50))
    def settle(self, which: int) -> None:
        seq = self._some(which)
        if seq is not None:
            self.twin.settle(seq)

    @stateful.rule(which=st.integers(0, 50), back=st.integers(0, 9))
    def rewind(self, which: int, back: int) -> None:
        seq = self._some(which)
        if seq is not None:
            length = len(self.twin.remembered[seq]) - back
            self.twin.rewind(seq, max(self.twin.settled[seq], length))

    @stateful.rule(which=st.integers(0, 50))
    def fork(self, which: int) -> None:
        seq = self._some(which)
        if seq is not None:
            self.twin.fork(seq)

    @stateful.rule(which=st.integers(0, 50))
    def free(self, which: int) -> None:
        seq = self._some(which)
        if seq is not None:
            self.twin.free(seq)

    @stateful.precondition(lambda self: self.swaps)
    @stateful.rule(which=st.integers(0, 50), out=st.booleans())
    def swap(self, which: int, out: bool) -> None:
        seq = self._some(which)
        if out and seq is not None:
            self.twin.swap_out(seq)
        elif not out and self.twin.swapped:
            self.twin.swap_in()

    @stateful.invariant()
    def consistent(self) -> None:
        Machine.steps += 1
        if hasattr(self, "twin"):
            self.twin.check()

    def teardown(self) -> None:
        if hasattr(self, "twin"):
            self.twin.finish()


@pytest.mark.slow
def test_ten_thousand_steps() -> None:
    settings = hypothesis.settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    stateful.run_state_machine_as_test(Machine, settings=settings)
    assert Machine.steps >= 10_000


def _drive(tables: type[Tables], blocks: type[Blocks] = Blocks) -> Twin:
    """Random verbs over small pools of several sizes; the last twin."""
    for seed in range(8):
        draw = random.Random(seed)
        made = tables(8 + 3 * seed, 1 + seed % 4, share=True)
        made.blocks = blocks(made.blocks.count)
        twin = Twin(made)
        for step in range(300):
            twin.random_step(draw)
            if step % 20 == 0:
                twin.check()
        twin.finish()
    return twin


def test_right_tables_pass_and_everything_happened() -> None:
    twin = _drive(Tables)
    assert twin.hits > 5
    assert twin.refused > 5
    assert twin.tables.copied > 5
    assert twin.tables.blocks.evictions > 5


class WritesShared(Tables):
    def _shared(self, table: Table, end: int) -> list[int]:
        return []


class ForgetsToCopy(Tables):
    def _reserve(self, seq: int, table: Table, count: int) -> Copies | None:
        copies = super()._reserve(seq, table, count)
        return None if copies is None else ()


class KeepsNames(Tables):
    """A block that is written again is still found by what it held before."""

    def _make_own(self, table: Table, need: int, shared: list[int]) -> Copies:
        forget, self.blocks.forget = self.blocks.forget, lambda block: None  # type: ignore[method-assign]
        try:
            return super()._make_own(table, need, shared)
        finally:
            self.blocks.forget = forget  # type: ignore[method-assign]


class NamesEarly(Tables):
    """Names a block before it is full."""

    def settle(self, seq: int) -> None:
        super().settle(seq)
        table = self._tables.get(seq)
        if table is not None and table.length % self.size and not table.names:
            self.blocks.name(table.blocks[0], chain(b"", table.tokens[: self.size]))


class MatchesEverything(Tables):
    def match(self, seq: int, tokens: Sequence[int]) -> int:
        return super().match(seq, [*tokens, 0])


class NamesWithoutWhatCameBefore(Tables):
    def _name(self, table: Table) -> None:
        for j in range(len(table.names), table.length // self.size):
            name = chain(b"", table.tokens[j * self.size : (j + 1) * self.size])
            self.blocks.name(table.blocks[j], name)
            table.names.append(name)


class TakesWhatIsLeft(Tables):
    """Takes some blocks even where it refuses."""

    def _reserve(self, seq: int, table: Table, count: int) -> Copies | None:
        copies = super()._reserve(seq, table, count)
        if copies is None and self.blocks.available:
            table.blocks.append(self.blocks.take())
            table.room += self.size
            self._tables[seq] = table
        return copies


class KeepsSurplus(Tables):
    def settle(self, seq: int) -> None:
        surplus = self._tables[seq].room - self._tables[seq].length
        if surplus < self.size:
            super().settle(seq)


class ForksWithoutReferences(Tables):
    def fork(self, source: int, target: int) -> None:
        share, self.blocks.share = self.blocks.share, lambda block: None  # type: ignore[method-assign]
        super().fork(source, target)
        self.blocks.share = share  # type: ignore[method-assign]


class ForkedInSecret(Tables):
    """The source goes on writing into what it shares."""

    def fork(self, source: int, target: int) -> None:
        super().fork(source, target)
        if source in self:
            self[source].suspect = False


class LosesTheLast(Tables):
    def free(self, seq: int) -> None:
        if seq in self._tables and self._tables[seq].blocks:
            self._tables[seq].blocks.pop()
        super().free(seq)


class AdoptsNothing(Tables):
    """Says a swapped sequence is back, in blocks that others hold."""

    def adopt(self, seq: int, length: int, dropped: int, tokens: Sequence[int] = ()) -> bool:
        done = super().adopt(seq, length, dropped, tokens)
        if done and length:
            self.blocks.give(self._tables[seq].blocks[0])
        return done


@pytest.mark.parametrize(
    "tables",
    [
        WritesShared,
        ForgetsToCopy,
        KeepsNames,
        NamesEarly,
        MatchesEverything,
        NamesWithoutWhatCameBefore,
        TakesWhatIsLeft,
        KeepsSurplus,
        ForksWithoutReferences,
        ForkedInSecret,
        LosesTheLast,
        AdoptsNothing,
    ],
)
def test_wrong_tables_fail(tables: type[Tables]) -> None:
    with pytest.raises((AssertionError, IndexError, KeyError)):
        _drive(tables)


class EvictsTheFirstFree(Blocks):
    """Gives up an idle block and leaves its name behind."""

    def forget(self, block: int) -> None:
        self.names[block] = None


class FreesTwice(Blocks):
    def give(self, block: int) -> None:
        super().give(block)
        if self.references[block] == 0 and self.names[block] is None and block % 3 == 0:
            self._free.append(block)


class NeverFrees(Blocks):
    def give(self, block: int) -> None:
        if self.references[block] > 1:
            super().give(block)


class GivesAwayWhatIsHeld(Blocks):
    def take(self) -> int:
        held = [block for block, n in enumerate(self.references) if n]
        if not self._free and held:
            return held[0]
        return super().take()


class FindsWithoutHolding(Blocks):
    def find(self, name: bytes) -> int | None:
        return self._found.get(name)


@pytest.mark.parametrize(
    "blocks",
    [EvictsTheFirstFree, FreesTwice, NeverFrees, GivesAwayWhatIsHeld, FindsWithoutHolding],
)
def test_wrong_blocks_fail(blocks: type[Blocks]) -> None:
    with pytest.raises((AssertionError, IndexError, KeyError)):
        _drive(Tables, blocks)


def test_giving_back_twice_is_noticed() -> None:
    blocks = Blocks(2)
    block = blocks.take()
    blocks.give(block)
    with pytest.raises(AssertionError, match="given back twice"):
        blocks.give(block)


def test_the_least_recently_used_content_goes_first() -> None:
    blocks = Blocks(3)
    names = [chain(b"", [i]) for i in range(3)]
    for name in names:
        blocks.name(blocks.take(), name)
    for block in (1, 0, 2):
        blocks.give(block)
    # Found again, block 1 is now the most recently used one.
    found = blocks.find(names[1])
    assert found == 1
    blocks.give(1)
    assert [blocks.take() for _ in range(3)] == [0, 2, 1]
    assert blocks.evictions == 3
    assert blocks.find(names[0]) is None


def test_the_head_of_a_prompt_outlives_its_tail() -> None:
    twin = Twin(Tables(4, 2, share=True))
    first = twin.start([1] * 8)
    assert first is not None
    twin.free(first)
    # Two blocks are needed: the last two of the old prompt go.
    assert twin.start([5, 5, 5]) is not None
    assert twin.tables.match(99, [1] * 8) == 4


def test_a_window_gives_its_left_back() -> None:
    tables = Tables(4, 2, window=3)
    for length in range(1, 40):
        assert tables.reserve(0, 1) is not None
        tables.advance(0, length)
        tables.settle(0)
        tables.check()
        # The next row sees the last two, and one block may hold one place more.
        assert tables.blocks.held <= 2
    # A whole prompt passes through before its left is given back.
    assert tables.reserve(1, 5) is None
    tables.free(0)
    assert tables.blocks.held == 0


def test_names_differ_where_contents_do() -> None:
    seen: dict[bytes, Any] = {}
    for before in ([], [1], [1, 2], [12]):
        for tokens in ([1, 2], [2, 1], [12], [1], [2]):
            name = chain(chain(b"", before) if before else b"", tokens)
            assert seen.setdefault(name, (before, tokens)) == (before, tokens)
