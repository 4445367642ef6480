"""The part of a slot whose entries leave a window: a region little longer than the window itself.

Entries lie in order from the region's start. When the next forward might not fit, the last `window`
of them move there. Only a `settle` forgets: until then a rewind may come back, so that a forward
longer than the region, a prompt, stays beside it in tensors of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from harness.engine.store import Pages
from harness.model.batch import RaggedBatch
from harness.plan import Limits
from harness.shape import TokenState

Streams = tuple[Tensor, ...]
# Of a batch's regions, by where they start: table, lengths, and the longest.
Regions = dict[tuple[int, ...], tuple[Tensor, Tensor, int]]


def region_places(window: int, limits: Limits) -> int:
    """Places of one region: the window, and room that makes moving it rare."""
    slack = limits.lookahead + max(1, window // 4)
    return min(window + slack, limits.max_tokens + limits.lookahead)


@dataclass
class _Held:
    """What is held of one sequence in one group, [K, stored, H] a stream, from place `first` on."""

    first: int
    stored: int
    beside: Streams | None = None  # all of it, where it does not fit into the region


@dataclass
class WindowedGroup:
    """One group of a contiguous store: a region a slot, [slots, K, places, H] a stream."""

    group: TokenState
    slots: int
    limits: Limits
    dtype: torch.dtype
    device: str
    pools: Streams = ()
    _held: dict[int, _Held] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.group.window is not None
        self._window = self.group.window
        self._places = region_places(self._window, self.limits)
        self.pools = tuple(
            torch.zeros(
                self.slots, heads, self._places, numbers, dtype=self.dtype, device=self.device
            )
            for _, (heads, numbers) in self.group.streams
        )

    def append(self, slot: int, context: int, rows: Streams) -> None:
        """Write one sequence's rows of this forward, each stream [K, T, H], behind `context`."""
        held = self._held.setdefault(slot, _Held(first=0, stored=0))
        held.stored = context - held.first
        end = held.stored + rows[0].shape[1]
        if held.beside is None and end <= self._places:
            for pool, stream in zip(self.pools, rows, strict=True):
                pool[slot, :, held.stored : end] = stream
        else:
            before = self.view(slot)
            pairs = zip(before, rows, strict=True)
            held.beside = tuple(torch.cat([old, new], 1) for old, new in pairs)
        held.stored = end

    def view(self, slot: int) -> Streams:
        """Everything held of a slot's sequence, each stream [K, stored, H]."""
        held = self._held.get(slot, _Held(first=0, stored=0))
        if held.beside is not None:
            return tuple(stream[:, : held.stored] for stream in held.beside)
        return tuple(pool[slot, :, : held.stored] for pool in self.pools)

    def first(self, slot: int) -> int:
        """The place of the first entry held."""
        return self._held[slot].first if slot in self._held else 0

    def starts(self, slots: list[int]) -> tuple[int, ...] | None:
        """First places of these slots' entries; None where some lie beside the regions."""
        held = [self._held[slot] for slot in slots]
        if any(each.beside is not None for each in held):
            return None
        return tuple(each.first for each in held)

    def rewind(self, slot: int, length: int) -> None:
        """Forget from `length` on."""
        if slot in self._held:
            held = self._held[slot]
            held.stored = min(held.stored, max(0, length - held.first))

    def select(self, slot: int, start: int, kept: Tensor) -> None:
        """Move the kept rows, places behind `start`, down to follow it."""
        held = self._held[slot]
        begin = start - held.first
        for stream in self._whole(slot):
            # Gathered first: source and target overlap.
            stream[:, begin : begin + len(kept)] = stream.index_select(1, kept + begin)
        held.stored = begin + len(kept)

    def settle(self, slot: int) -> None:
        """Everything held is final: what left the window may go."""
        held = self._held.get(slot)
        if held is None:
            return
        roomy = held.stored + self.limits.lookahead + 1 <= self._places
        if held.beside is None and roomy:
            return
        kept = min(held.stored, self._window)
        last = [stream[:, held.stored - kept :].clone() for stream in self.view(slot)]
        for pool, stream in zip(self.pools, last, strict=True):
            pool[slot, :, :kept] = stream
        self._held[slot] = _Held(first=held.first + held.stored - kept, stored=kept)

    def pages(self, slots: list[int], batch: RaggedBatch, known: Regions) -> Pages | None:
        """One page a sequence, its region; None where a prompt lies beside. `known` is shared by
        the batch's groups: those of one window agree."""
        starts = self.starts(slots)
        if starts is None:
            return None
        found = known.get(starts)
        if found is None:
            stored = [length - start for length, start in zip(batch.lens, starts, strict=True)]
            found = known[starts] = (
                torch.tensor(slots, dtype=torch.int32, device=self.device)[:, None],
                torch.tensor(stored, dtype=torch.int32, device=self.device),
                max(stored),
            )
        return Pages(self.pools, *found, starts=starts)

    def load(self, slot: int, first: int, streams: Streams) -> None:
        """Take over what another slot or store held."""
        stored = streams[0].shape[1]
        self._held[slot] = _Held(first, stored, tuple(stream.clone() for stream in streams))

    def free(self, slot: int) -> None:
        """Forget a slot's sequence."""
        self._held.pop(slot, None)

    def reset(self) -> None:
        """Forget every sequence."""
        self._held.clear()

    def held_bytes(self) -> int:
        """Bytes of the entries held, at most a window a sequence once they are settled."""
        return sum(
            stream[:, -self._window :].numel() * stream.element_size()
            for slot, held in self._held.items()
            if held.stored
            for stream in self.view(slot)
        )

    def reserved_bytes(self) -> int:
        """Bytes of the regions, and of what lies beside them."""
        beside = [held.beside for held in self._held.values() if held.beside is not None]
        tensors = [*self.pools, *(stream for streams in beside for stream in streams)]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def _whole(self, slot: int) -> Streams:
        held = self._held[slot]
        return held.beside if held.beside is not None else tuple(pool[slot] for pool in self.pools)
