"""The tensors behind slots: a pool a stream, head-major, [slots, K, capacity, H]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from harness.errors import UnfitError
from harness.model.batch import RaggedBatch
from harness.plan import Limits
from harness.shape import TokenState
from harness.techniques.contiguous.window import region_places

Pools = Mapping[int, tuple[Tensor, ...]]


def slot_count(groups: list[TokenState], limits: Limits, dtype: torch.dtype) -> int:
    """Slots: as many as asked for, or as fit into the memory that is granted."""
    if limits.state_bytes is None:
        return limits.slots
    longest = limits.max_tokens + limits.lookahead
    numbers = sum(
        group.entry_numbers
        * (longest if group.window is None else region_places(group.window, limits))
        for group in groups
    )
    size = numbers * dtype.itemsize
    if limits.state_bytes < size:
        raise UnfitError(
            f"{limits.state_bytes} bytes for state hold no sequence of {limits.max_tokens} tokens, "
            f"which takes {size}; grant more, or paged takes no more than a sequence needs"
        )
    return min(limits.slots, limits.state_bytes // size)


def made(
    groups: list[TokenState], slots: int, capacity: int, dtype: torch.dtype, device: str
) -> dict[int, tuple[Tensor, ...]]:
    """A pool a stream of each group without a window. Streams are [entry heads, entry numbers]."""
    return {
        index: tuple(
            torch.zeros(slots, heads, capacity, numbers, dtype=dtype, device=device)
            for _, (heads, numbers) in group.streams
        )
        for index, group in enumerate(groups)
        if group.window is None
    }


def move(pools: Pools, slot: int, start: int, offsets: Tensor) -> None:
    """Let the entries at `start + offsets` of a slot follow `start`."""
    for streams in pools.values():
        for pool in streams:
            # Gathered first: source and target overlap.
            moved = pool[slot].index_select(1, offsets + start)
            pool[slot, :, start : start + len(offsets)] = moved


def rows_of(batch: RaggedBatch, batch_slots: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Slot and place in it of each of the batch's rows, [T] each."""
    slots: list[int] = []
    places: list[int] = []
    for i, slot in enumerate(batch_slots):
        slots += [slot] * batch.query_len(i)
        places += range(batch.context_lens[i], batch.lens[i])
    device = batch.device
    return torch.tensor(slots, device=device), torch.tensor(places, device=device)
