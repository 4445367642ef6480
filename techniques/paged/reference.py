"""What block tables promise, as a twin that remembers every token of every sequence.

It writes tokens where the tables say, into blocks of plain lists, and holds what lies there to what
it remembers: nothing is lost, no shared block is written, and what can be found is what its name
says. Independent of tensors and of the engine; for tests and for the long driver.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from harness.techniques.paged.blocks import chain
from harness.techniques.paged.tables import Copies, Tables

VERBS = ("start", "append", "append", "append", "extend", "rewind", "fork", "swap", "free")


class Twin:
    """Tables beside what they must hold. Every method checks the sequences it touches."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.size = tables.size
        self.remembered: dict[int, list[int]] = {}
        self.settled: dict[int, int] = {}
        self.swapped: dict[int, tuple[int, list[int]]] = {}
        self.hits = 0
        self.refused = 0
        self._memory = [[-1] * self.size for _ in range(tables.blocks.count)]
        self._contents: dict[bytes, list[int]] = {}
        self._next = 0

    def random_step(self, draw: random.Random) -> None:
        """One verb of the engine's on a random sequence; prompts often begin alike."""
        live = list(self.remembered)
        verb = draw.choice(VERBS) if live else "start"
        seq = draw.choice(live) if live else 0
        if verb == "start":
            size = self.size
            prompt = [draw.randrange(2)] * draw.randrange(1, 3 * size)
            self.start([*prompt, *(draw.randrange(3) for _ in range(draw.randrange(size)))])
        elif verb == "append":
            self.feed(seq, [draw.randrange(3)])
            self.settle(seq)
        elif verb == "extend":
            self.feed(seq, [draw.randrange(3) for _ in range(draw.randrange(1, 3 * self.size))])
        elif verb == "rewind":
            self.rewind(seq, draw.randint(self.settled[seq], len(self.remembered[seq])))
        elif verb == "fork":
            self.fork(seq)
        elif verb == "swap":
            self.swap_in() if self.swapped and draw.random() < 0.5 else self.swap_out(seq)
        else:
            self.free(seq)

    def start(self, prompt: Sequence[int]) -> int | None:
        """A new sequence, which may begin with blocks that are there; None without room."""
        seq, self._next = self._next, self._next + 1
        found = self.tables.match(seq, prompt)
        assert 0 <= found < len(prompt)
        assert found % self.size == 0
        self.hits += found > 0
        self.remembered[seq], self.settled[seq] = [*prompt[:found]], found
        self.read(seq)
        if not self.feed(seq, prompt[found:]):
            self.free(seq)
            return None
        self.settle(seq)
        return seq

    def feed(self, seq: int, tokens: Sequence[int]) -> bool:
        """Append tokens where the tables say; False, and nothing changed, without room."""
        held = len(self.remembered[seq])
        available = self.tables.blocks.available
        wanted = self.tables.wanted(seq, len(tokens))
        copies = self.tables.reserve(seq, len(tokens))
        assert (copies is not None) == (wanted <= available)
        if copies is None:
            self.refused += 1
            assert self.tables.length(seq) == held
            assert self.tables.blocks.available == available
            return False
        assert self.tables.blocks.available >= available - wanted
        self._copy(copies)
        table = self.tables[seq]
        for place, token in enumerate(tokens, held):
            block = table.blocks[place // self.size]
            assert self.tables.blocks.references[block] == 1, "a shared block is written"
            self._memory[block][place % self.size] = token
        self.remembered[seq] += tokens
        self.tables.advance(seq, held + len(tokens), tokens)
        self.read(seq)
        return True

    def _copy(self, copies: Copies) -> None:
        for source, target in copies:
            self._memory[target] = [*self._memory[source]]

    def rewind(self, seq: int, length: int) -> None:
        """Forget what is not settled, from `length` on."""
        assert length >= self.settled[seq]
        self.tables.rewind(seq, length)
        del self.remembered[seq][length:]
        self.read(seq)

    def settle(self, seq: int) -> None:
        """All of it is final. Blocks that are full may now be found."""
        self.tables.settle(seq)
        tokens = self.remembered[seq]
        self.settled[seq] = len(tokens)
        name = b""
        for end in range(self.size, len(tokens) + 1, self.size):
            block = tokens[end - self.size : end]
            name = chain(name, block)
            self._contents[name] = block
        assert len(self.tables[seq].blocks) == -(-len(tokens) // self.size), "a block too many"
        self.read(seq)

    def fork(self, seq: int) -> int:
        """A second sequence with the same tokens."""
        target, self._next = self._next, self._next + 1
        available = self.tables.blocks.available
        self.tables.fork(seq, target)
        assert self.tables.blocks.available == available, "a fork takes no block"
        self.remembered[target] = [*self.remembered[seq]]
        self.settled[target] = self.settled[seq]
        self.read(target)
        return target

    def free(self, seq: int) -> None:
        """Forget a sequence."""
        self.tables.free(seq)
        del self.remembered[seq], self.settled[seq]
        assert seq not in self.tables

    def swap_out(self, seq: int) -> None:
        """Take a sequence out; what is not settled is lost."""
        self.rewind(seq, self.settled[seq])
        self.swapped[seq] = (self.tables[seq].dropped if seq in self.tables else 0, self.read(seq))
        self.free(seq)

    def swap_in(self) -> bool:
        """Bring back the sequence that has been out for longest, if there is room."""
        seq, (dropped, tokens) = next(iter(self.swapped.items()))
        if not self.tables.adopt(seq, len(tokens), dropped, tokens):
            return False
        del self.swapped[seq]
        table = self.tables[seq]
        for place, token in enumerate(tokens):
            self._memory[table.blocks[place // self.size]][place % self.size] = token
        self.remembered[seq], self.settled[seq] = tokens, len(tokens)
        self.settle(seq)
        return True

    def read(self, seq: int) -> list[int]:
        """The tokens that lie where the tables say; AssertionError where they are not the ones."""
        wanted = self.remembered[seq]
        assert self.tables.length(seq) == len(wanted)
        if seq in self.tables:
            table, size = self.tables[seq], self.size
            found = [self._memory[table.blocks[p // size]][p % size] for p in range(len(wanted))]
            assert found == wanted, f"sequence {seq} does not hold what it was given"
        return [*wanted]

    def check(self) -> None:
        """Every sequence, every count, and everything that can be found."""
        self.tables.check()
        for seq in self.remembered:
            self.read(seq)
        for block, name in enumerate(self.tables.blocks.names):
            assert name is None or self._memory[block] == self._contents[name], "a wrong name"

    def finish(self) -> None:
        """Free everything and look for a leak."""
        for seq in list(self.remembered):
            self.free(seq)
        self.check()
        assert self.tables.blocks.available == self.tables.blocks.count, "blocks leaked"
