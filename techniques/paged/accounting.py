"""How many blocks there are, what lies in them, and what of them is waste."""

from __future__ import annotations

import torch

from harness.errors import UnfitError
from harness.plan import Limits
from harness.shape import TokenState
from harness.techniques.paged import Options
from harness.techniques.paged.buddy import power
from harness.techniques.paged.reserved import ReservedTables
from harness.techniques.paged.tables import Tables


def block_count(
    groups: list[TokenState], limits: Limits, options: Options, dtype: torch.dtype
) -> int:
    """Blocks in each pool: as many as the memory holds that is granted, or as every slot needs.

    Raises UnfitError where the memory holds no block.
    """
    block = options.block
    if limits.state_bytes is None:
        longest = -(-(limits.max_tokens + limits.lookahead) // block)
        return limits.slots * (longest if options.reservation == "demand" else power(longest))
    size = block * sum(group.entry_numbers for group in groups) * dtype.itemsize
    if limits.state_bytes < size:
        raise UnfitError(
            f"{limits.state_bytes} bytes for state hold no block of {block} tokens, which takes "
            f"{size}; grant more, or take smaller blocks"
        )
    return limits.state_bytes // size


def filled(tables: Tables | ReservedTables) -> int:
    """Places with an entry that may still be read, each once however many sequences share it."""
    size = tables.size
    places: dict[int, int] = {}
    for seq in tables:
        table = tables[seq]
        first = 0 if tables.window is None else max(0, table.length - tables.window)
        for j in range(first // size, len(table.blocks)):
            block = table.blocks[j]
            count = min(size, table.length - j * size) - max(0, first - j * size)
            places[block] = max(places.get(block, 0), count)
    return sum(places.values())


def counters(tables: Tables | ReservedTables) -> dict[str, int]:
    """Places there are, places in held blocks and entries in those; places that idle blocks keep
    for a sequence that begins alike; blocks copied and given up so far."""
    blocks, size = tables.blocks, tables.size
    # By block, so that a shared one counts once. All but a sequence's last block are full.
    unfilled = {
        table.blocks[-1]: table.room - table.length
        for table in map(tables.__getitem__, tables)
        if table.room > table.length
    }
    held = blocks.held * size
    return {
        "places": blocks.count * size,
        "places_held": held,
        "places_used": held - sum(unfilled.values()),
        "places_idle": blocks.idle * size,
        "blocks_copied": tables.copied,
        "blocks_evicted": blocks.evictions,
    }
