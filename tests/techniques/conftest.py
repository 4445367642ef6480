"""A token store beside its plain twin, driven with the verbs of the engine in any order."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.engine.reference import PlainStore
from harness.engine.store import TokenStore
from harness.model.batch import Item, RaggedBatch, collect
from harness.plan import EnginePlan, Limits, Trait
from harness.shape import TokenState
from harness.technique import Exactness, Technique, load

# Keys and values of unlike sizes, a single stream shared by two layers, and a window.
GROUPS = [
    TokenState((("k", (2, 3)), ("v", (2, 4))), layers=(0,)),
    TokenState((("latent", (1, 5)),), layers=(1, 2)),
    TokenState((("k", (1, 2)), ("v", (1, 2))), layers=(3,), window=3),
]
LIMITS = Limits(slots=3, max_tokens=16, lookahead=4)
# Reserved names of the tokens of a rejected branch.
_REJECTED = 200

Prefix = tuple[int, ...]
Operation = tuple[str, int, int]
VERBS = ("feed", "feed", "feed", "tree", "rewind", "settle", "fork", "move", "free")


@cache
def entry(prefix: Prefix, group: int) -> tuple[Tensor, ...]:
    """What a token leaves in a group, a stream each: like keys and values, a function of the
    tokens up to it, so that stores may share equal beginnings."""
    generator = torch.Generator().manual_seed(zlib.crc32(bytes([group, *prefix])))
    return tuple(torch.randn(size, generator=generator) for _, size in GROUPS[group].streams)


class Pair:
    """The store under test and its twin, which gets only what was ever new.

    As the engine does, it feeds a store everything from the length it says it holds.
    """

    def __init__(self, store: TokenStore, twin: Any, incremental: bool, exact: bool = True) -> None:
        self.store = store
        self.twin = twin
        self.incremental = incremental
        self.exact = exact
        self.tokens: dict[int, list[int]] = {}
        self.settled: dict[int, int] = {}

    def apply(self, operations: Sequence[Operation]) -> None:
        """Do these, then read everything once more, free it, and look for a leak."""
        room = self.room()
        for verb, seq, number in operations:
            getattr(self, verb)(seq, random.Random(number))
        self.forward({seq: [(*tokens, 7)] for seq, tokens in self.tokens.items()})
        for seq in list(self.tokens):
            self.free(seq)
        assert self.store.held_bytes() == 0
        assert self.room() == room

    def room(self) -> int:
        """Sequences of full length that fit beside the ones that are there."""
        names: list[int] = []
        while len(names) < 20 and self.store.reserve(100 + len(names), LIMITS.max_tokens):
            names.append(100 + len(names))
        for name in names:
            self.store.free(name)
        return len(names)

    def feed(self, seq: int, rng: random.Random) -> None:
        """One forward for this sequence, and often for others too."""
        others = [other for other in range(5) if other != seq and rng.random() < 0.4]
        pieces: dict[int, list[Prefix]] = {}
        for each in [seq, *others]:
            grown = list(self.tokens.get(each, []))
            pieces[each] = []
            for _ in range(rng.choice((1, 1, 1, 2, 4))):
                grown.append(rng.randrange(2))
                pieces[each].append(tuple(grown))
        self.forward(pieces)

    def tree(self, seq: int, rng: random.Random) -> None:
        """Rows of which only some lie on the path that is kept."""
        if seq not in self.tokens:
            return
        start, path = len(self.tokens[seq]), list(self.tokens[seq])
        rows, kept = [], []
        for offset in range(rng.randrange(1, LIMITS.lookahead + 1)):
            if rng.random() < 0.5:
                path.append(rng.randrange(2))
                kept.append(offset)
                rows.append(tuple(path))
            else:
                rows.append((*path, _REJECTED + offset))
        if self.forward({seq: rows}):
            self.store.select(seq, start, kept)
            self.twin.select(seq, start, kept)
            self.tokens[seq] = path
            self.check_length(seq)

    def forward(self, pieces: dict[int, list[Prefix]]) -> bool:
        """Feed what the store lacks and these new rows; compare all that it then reads."""
        items, rows = [], []
        for seq, new in pieces.items():
            tokens = self.tokens.get(seq, [])
            if seq not in self.tokens:
                found = self.store.match(seq, [prefix[-1] for prefix in new])
                assert 0 <= found < len(new)
            held = self.store.length(seq)
            known = [tuple(tokens[: place + 1]) for place in range(len(tokens))]
            fed = [*known, *new][held:]
            if self.store.reserve(seq, len(fed)):
                items.append(Item(seq, [prefix[-1] for prefix in fed]))
                rows += fed
            else:
                assert self.store.length(seq) == held
                if seq not in self.tokens:
                    self.store.free(seq)
        if not items:
            return False
        batch = collect(items, [self.store.length(item.seq) for item in items])
        self.store.begin(batch)
        for group in range(len(GROUPS)):
            self.store.append(group, _streams(rows, group))
        for item in items:
            new = pieces[item.seq]
            self.twin.append(item.seq, [_streams(new, g) for g in range(len(GROUPS))])
            grown = [prefix[-1] for prefix in new]
            self.tokens[item.seq] = [*self.tokens.get(item.seq, []), *grown]
            self.settled.setdefault(item.seq, 0)
        self._compare(batch)
        self.store.advance(batch)
        for item in items:
            self.check_length(item.seq)
        return True

    def _compare(self, batch: RaggedBatch) -> None:
        if not self.exact:
            return
        for group, state in enumerate(GROUPS):
            pages = self.store.pages(group)
            for i, seq in enumerate(batch.seqs):
                wanted = self.twin.read(seq, group)
                streams, start = self.store.read(group, i)
                # The first of the new rows sees a window that ends with itself.
                needed = 0 if state.window is None else batch.context_lens[i] + 1 - state.window
                assert 0 <= start <= max(0, needed)
                for found, right in zip(streams, wanted, strict=True):
                    assert torch.equal(found, right[:, start:])
                if pages is None:
                    continue
                first = 0 if pages.starts is None else pages.starts[i]
                assert first <= start
                assert int(pages.lens[i]) == batch.lens[i] - first <= pages.max_len
                for pool, right in zip(pages.pools, wanted, strict=True):
                    joined = pool[pages.table[i].long()].transpose(0, 1).flatten(1, 2)
                    found = joined[:, start - first : batch.lens[i] - first]
                    assert torch.equal(found, right[:, start:])

    def check_length(self, seq: int) -> None:
        wanted = len(self.tokens[seq]) if self.incremental else 0
        assert self.store.length(seq) == wanted
        assert self.twin.length(seq) == len(self.tokens[seq])

    def rewind(self, seq: int, rng: random.Random) -> None:
        """Back to a place that is not settled yet."""
        if seq not in self.tokens:
            return
        length = rng.randint(self.settled[seq], len(self.tokens[seq]))
        assert self.store.rewind(seq, length) == (length if self.incremental else 0)
        self.twin.rewind(seq, length)
        del self.tokens[seq][length:]
        self.check_length(seq)

    def settle(self, seq: int, rng: random.Random) -> None:
        if seq in self.tokens:
            self.store.settle(seq)
            self.settled[seq] = len(self.tokens[seq])
            self.check_length(seq)

    def fork(self, seq: int, rng: random.Random) -> None:
        """A second sequence with the same beginning; both then go their own ways."""
        target = seq + 10
        if seq in self.tokens and target not in self.tokens and self.store.fork(seq, target):
            self.twin.fork(seq, target)
            self._name(seq, target)

    def move(self, seq: int, rng: random.Random) -> None:
        """Out of the store and in again under another name, as between two engines."""
        target = seq + 20
        if seq not in self.tokens or target in self.tokens:
            return
        blob = self.store.export(seq)
        self.store.free(seq)
        # What was shared with a fork now needs room of its own, and there may be none.
        if self.store.import_(target, blob):
            self.twin.fork(seq, target)
            self._name(seq, target)
        self.twin.free(seq)
        del self.tokens[seq], self.settled[seq]

    def _name(self, source: int, target: int) -> None:
        self.tokens[target] = list(self.tokens[source])
        self.settled[target] = self.settled[source]
        self.check_length(target)

    def free(self, seq: int, rng: random.Random | None = None) -> None:
        if seq in self.tokens:
            self.store.free(seq)
            self.twin.free(seq)
            del self.tokens[seq], self.settled[seq]
            assert self.store.length(seq) == 0


def _streams(prefixes: Sequence[Prefix], group: int) -> tuple[Tensor, ...]:
    """Each stream of a group for these rows, [T, heads, numbers]."""
    rows = [entry(prefix, group) for prefix in prefixes]
    return tuple(torch.stack(stream) for stream in zip(*rows, strict=True))


class Twins:
    """What a test needs to drive a cache beside its reference."""

    verbs = VERBS
    entry_bytes = sum(group.entry_numbers for group in GROUPS) * 4
    windowed_entry_bytes = GROUPS[2].entry_numbers * 4

    def pair(self, technique: Technique[Any], options: Any, plan: EnginePlan) -> Pair:
        """A fresh store of the technique, and its twin."""
        assert plan.cache is not None
        store = plan.cache.make(GROUPS, LIMITS, dtype=torch.float32, device="cpu")
        exact = technique.exactness(options) is not Exactness.LOSSY
        twin = load(technique.reference)(GROUPS)
        return Pair(store, twin, Trait.INCREMENTAL in plan.traits, exact)

    def entries_out_of_window(self, tokens: int) -> int:
        """Bytes of the entries that the row behind so many tokens no longer sees."""
        return max(0, tokens + 1 - (GROUPS[2].window or 0)) * self.windowed_entry_bytes

    def contiguous(self, store: type[Any]) -> Pair:
        """A changed contiguous store and the plain twin."""
        made = store(GROUPS, LIMITS, dtype=torch.float32, device="cpu")
        return Pair(made, PlainStore(GROUPS), incremental=True)


@pytest.fixture(scope="module")
def twins() -> Twins:
    """Stores beside their twins."""
    return Twins()
