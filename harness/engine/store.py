"""Where state lives: one protocol for what grows by the token, and both kinds under one length.

The engine always feeds `tokens[length:certain]` and then the proposal. Recompute (length 0),
chunked prefill, resume after preemption, prefix sharing and draft catch-up are no special cases:
each only changes `length`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from harness.engine.recurrent import RecurrentStore
from harness.model.batch import RaggedBatch

Blob = dict[str, Any]  # what `export` gives and `import_` takes; contents are the store's own


@dataclass(frozen=True)
class Pages:
    """A group's state as pools of pages, head-major, for kernels that read through a table."""

    pools: tuple[Tensor, ...]  # one a stream, [P, K, block, H]
    table: Tensor  # [B, pages] int32, a sequence's pages in order
    lens: Tensor  # [B] int32, tokens held with this batch's rows, from the first in the pages on
    max_len: int  # the largest of lens, known to the host
    # What pools in int8 or float8_e4m3fn are multiplied with, [P, K, block] float32 a stream.
    scales: tuple[Tensor, ...] | None = None
    # Place of each sequence's first entry in its pages, B: entries that left a window leave no gap.
    starts: tuple[int, ...] | None = None  # None: 0 everywhere


@dataclass(frozen=True)
class Destinations:
    """Where a batch's rows go in a group's pools, for kernels that write by themselves."""

    pools: tuple[Tensor, ...]  # one a stream, [P, K, block, H]
    pages: Tensor  # [T] int64
    offsets: Tensor  # [T] int64, within the page


class TokenStore(Protocol):
    """State that grows by one entry a token: the cache slot. Groups are indexed as declared."""

    def length(self, seq: int) -> int:
        """Tokens held."""

    def match(self, seq: int, tokens: list[int]) -> int:
        """Adopt a stored prefix of these tokens; how many are then held, at most all but one."""

    def reserve(self, seq: int, count: int) -> bool:
        """Make room for `count` more tokens, all or nothing."""

    def begin(self, batch: RaggedBatch) -> None:
        """A forward starts: work out where this batch's rows go."""

    def append(self, group: int, streams: tuple[Tensor, ...]) -> None:
        """Write this batch's entries, each stream [T, *entry]."""

    def destinations(self, group: int) -> Destinations | None:
        """Where `append` would write, or None where a row has no one place in a page."""

    def read(self, group: int, i: int) -> tuple[tuple[Tensor, ...], int]:
        """Everything held of sequence i with this batch's rows: streams [K, S, H], first place."""

    def pages(self, group: int) -> Pages | None:
        """The group as pages for this batch, or None where it is not kept as pages."""

    def advance(self, batch: RaggedBatch) -> None:
        """The batch's rows are now held, tentatively."""

    def rewind(self, seq: int, length: int) -> int:
        """Forget everything from `length` on; the length then held, which may be less."""

    def select(self, seq: int, start: int, kept: list[int]) -> None:
        """Keep the rows at `start + kept` (ascending), moved down to follow `start`."""

    def settle(self, seq: int) -> None:
        """Everything held is final: surplus room may be given back."""

    def fork(self, source: int, target: int) -> bool:
        """Let `target` begin as a copy of `source`; False when there is no room."""

    def free(self, seq: int) -> None:
        """Forget the sequence."""

    def export(self, seq: int) -> Blob:
        """The sequence's state, to be taken to another store."""

    def import_(self, seq: int, blob: Blob) -> bool:
        """Take over an exported sequence; False when there is no room."""

    def reset(self) -> None:
        """Forget everything: nothing survives between cases."""

    def held_bytes(self) -> int:
        """Bytes of the entries held now, read off the tensors."""

    def reserved_bytes(self) -> int:
        """Bytes allocated for entries, held or not."""


@runtime_checkable
class Pooled(Protocol):
    """What a token store over a fixed pool can say of it. A store need not have one."""

    def longest(self) -> int:
        """Tokens of the longest sequence that fits when it is alone."""

    def room(self) -> int:
        """Places for tokens that are left, together with those that would be given up."""

    def counters(self) -> dict[str, int]:
        """`places` there are, `places_held` for sequences, `places_used` by entries, and what else
        there is to count; see `harness.engine.engine.Engine.counters`."""


@runtime_checkable
class Extending(Protocol):
    """What a token store offers that makes room for a whole batch quicker than one by one."""

    def extend(self, seqs: Collection[int]) -> bool:
        """Room for one more token of each; False where one finds none, and some may have it."""


@runtime_checkable
class Reserving(Protocol):
    """What a token store offers that makes room for a sequence before it is needed."""

    def expect(self, seq: int, prompt_tokens: int, new_tokens: int) -> None:
        """A sequence will begin, with so many tokens and at most so many to come."""


class Store:
    """Both kinds of state under one length: what the engine and the mixers see."""

    def __init__(self, tokens: TokenStore | None, recurrent: RecurrentStore | None) -> None:
        self.tokens = tokens
        self.recurrent = recurrent
        self._parts: list[TokenStore | RecurrentStore] = [
            # Recurrent state goes first: it may come back shorter than asked.
            part
            for part in (recurrent, tokens)
            if part is not None
        ]
        self._alone = self._parts[0] if len(self._parts) == 1 else None
        self._pool = tokens if isinstance(tokens, Pooled) else None
        self._extending = tokens if isinstance(tokens, Extending) else None
        self._reserving = tokens if isinstance(tokens, Reserving) else None

    def length(self, seq: int) -> int:
        """Tokens held by every part."""
        if self._alone is not None:
            return self._alone.length(seq)
        return min(part.length(seq) for part in self._parts)

    def expect(self, seq: int, prompt_tokens: int, new_tokens: int) -> None:
        """Tell a store that reserves ahead how long a sequence may become."""
        if self._reserving is not None:
            self._reserving.expect(seq, prompt_tokens, new_tokens)

    def longest(self) -> int | None:
        """Tokens of the longest sequence that fits when it is alone; None: only limits bound it."""
        return None if self._pool is None else self._pool.longest()

    def room(self) -> int | None:
        """Places for tokens that are left; None where no pool bounds them."""
        return None if self._pool is None else self._pool.room()

    def counters(self) -> dict[str, int]:
        """What the pool of per-token state has to count."""
        return {} if self._pool is None else self._pool.counters()

    def match(self, seq: int, tokens: list[int]) -> int:
        """Adopt a stored prefix. A recurrent state exists only at a sequence's end: no sharing."""
        if self.tokens is None or self.recurrent is not None:
            return 0
        return self.tokens.match(seq, tokens)

    def reserve(self, seq: int, count: int) -> bool:
        """Room for `count` more tokens in every part, all or nothing."""
        return self.tokens is None or self.tokens.reserve(seq, count)

    def extend(self, seqs: Collection[int]) -> bool:
        """Room for one more token of each of these; False where one finds none."""
        if self._extending is not None:
            return self._extending.extend(seqs)
        return all(self.reserve(seq, 1) for seq in seqs)

    def begin(self, batch: RaggedBatch) -> None:
        """A forward starts."""
        for part in self._parts:
            part.begin(batch)

    def advance(self, batch: RaggedBatch) -> None:
        """The batch's rows are now held, tentatively."""
        for part in self._parts:
            part.advance(batch)

    def rewind(self, seq: int, length: int) -> int:
        """Forget everything from `length` on, in every part; the common length then held."""
        for part in self._parts:
            length = min(length, part.rewind(seq, length))
        return length

    def select(self, seq: int, start: int, kept: list[int]) -> None:
        """Keep accepted rows of a tree. Planning refuses trees on recurrent layers."""
        assert self.tokens is not None, "a draft tree needs per-token state"
        self.tokens.select(seq, start, kept)

    def settle(self, seq: int) -> None:
        """Everything held is final."""
        for part in self._parts:
            part.settle(seq)

    def fork(self, source: int, target: int) -> bool:
        """Let `target` begin as a copy of `source`, in every part."""
        return all(part.fork(source, target) for part in reversed(self._parts))

    def free(self, seq: int) -> None:
        """Forget the sequence."""
        for part in self._parts:
            part.free(seq)

    def export(self, seq: int) -> list[Blob]:
        """The sequence's state in every part."""
        return [part.export(seq) for part in self._parts]

    def import_(self, seq: int, blobs: list[Blob]) -> bool:
        """Take over an exported sequence, in every part."""
        pairs = list(zip(self._parts, blobs, strict=True))
        # As in `fork`, the part that may have no room goes first.
        return all(part.import_(seq, blob) for part, blob in reversed(pairs))

    def reset(self) -> None:
        """Forget everything."""
        for part in self._parts:
            part.reset()

    def held_bytes(self) -> int:
        """Bytes of the entries held now."""
        return sum(part.held_bytes() for part in self._parts)

    def reserved_bytes(self) -> int:
        """Bytes allocated for state, held or not."""
        return sum(part.reserved_bytes() for part in self._parts)
