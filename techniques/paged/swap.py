"""A sequence's entries out of its blocks into host memory, and back into others."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from harness.engine.store import Blob
from harness.techniques.paged.pools import Pools
from harness.techniques.paged.reserved import ReservedTables
from harness.techniques.paged.tables import Tables


def export(pools: Pools, of_groups: Sequence[Tables | ReservedTables], seq: int) -> Blob:
    """Copies of everything held, [K, S - start, H] a stream of each group."""
    streams, starts = [], []
    for group, tables in enumerate(of_groups):
        table = tables[seq]
        start = table.dropped * tables.size
        held = torch.tensor(table.blocks[table.dropped :], device=pools.device)
        joined = pools.joined(group, held, table.length - start)
        streams.append([stream.to("cpu", copy=True) for stream in joined])
        starts.append(start)
    first = of_groups[0][seq]
    return {
        "length": first.length, "streams": streams, "starts": starts, "tokens": [*first.tokens]
    }  # fmt: skip


def load(pools: Pools, of_groups: Sequence[Tables | ReservedTables], seq: int, blob: Blob) -> None:
    """Write what was exported into the blocks that the sequence holds now."""
    for group, (tables, streams) in enumerate(zip(of_groups, blob["streams"], strict=True)):
        size = tables.size
        held = torch.tensor(tables[seq].blocks, device=pools.device)
        places = torch.arange(blob["starts"][group], blob["length"], device=pools.device)
        rows = [stream.transpose(0, 1).to(pools.device) for stream in streams]
        pools.write(group, (held[places // size], places % size), rows)
