"""How long a matrix product takes on a device: the form of the model, one for all GPUs.

A GPU cuts the output into tiles and gives each to a multiprocessor; with few tiles the sum is split
as well. A tile takes as long as its FLOPs or as feeding its operands; multiprocessors without
one in the last wave idle, of which about half is won back, as the others then have more bandwidth
and power. A library picks the tiling by rules of thumb, not by trying, so the mean of the best few
stands for its choice. Moving everything once to or from memory overlaps with that, imperfectly.

Four constants are fitted (`Efficiency`); what stands here was chosen once, by looking at the
shipped A100 table, and is the same on every device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.predict.efficiency import Efficiency
from harness.predict.measured import Measured

Array = NDArray[np.float64]

# Tiles [rows, outer] that libraries have, and into how many parts they split the sum.
TILES = ((64, 64), (64, 128), (128, 64), (128, 128), (128, 256), (256, 128))
SPLITS = (1, 2, 4)
# How many of the best ways are averaged.
PICKED = 3
# Share of the last wave's idle multiprocessors that is lost.
LOST = 0.5
# Overlap of two times: their 3-norm, which is a quarter above the larger where both are equal.
OVERLAP = 3.0
# A split leaves partial sums in float32, written and read in the cache at thrice memory's rate.
_SPLIT_BYTES = 4 * 2 / 3


@dataclass(frozen=True)
class Rates:
    """What a device can do in one dtype, and what share of it is reached.

    A GPU has its shares and multiprocessors, a processor its own measured times.
    """

    flops_per_s: float
    bandwidth: float  # of memory, bytes a second
    multiprocessors: int
    efficiency: Efficiency
    measured: Measured | None = None


def overlapped(one: Array, other: Array) -> Array:
    """The time of two kinds of work that run side by side."""
    both: Array = (one**OVERLAP + other**OVERLAP) ** (1 / OVERLAP)
    return both


def compute_seconds(
    rows: Array,
    inner: float,
    outer: float,
    rates: Rates,
    size: float,
    weight_size: float | None = None,
) -> Array:
    """Seconds of the arithmetic of [rows, inner] x [inner, outer], operands fed from the cache."""
    share = rates.efficiency
    cores, memory = rates.multiprocessors, rates.bandwidth
    flops_per_s = rates.flops_per_s * share.matrix / cores
    fed_per_s = np.inf if share.operands is None else share.operands * memory / cores
    ways = []
    for high, wide in TILES:
        # Seconds a tile, for each number in the sum.
        fed = high * size + wide * (weight_size or size)
        tile = max(2.0 * high * wide / flops_per_s, fed / fed_per_s)
        tiles = np.ceil(rows / high) * np.ceil(outer / wide)
        for parts in SPLITS:
            waves = tiles * parts / cores
            occupied = np.where(waves > 1, waves + LOST * (np.ceil(waves) - waves), 1.0)
            seconds = occupied * tile * inner / parts
            if parts > 1:
                seconds = seconds + _SPLIT_BYTES * parts * rows * outer / memory
            ways.append(seconds)
    best = np.partition(np.stack(ways), PICKED - 1, axis=0)[:PICKED]
    mean: Array = best.mean(axis=0)
    return mean


def product_seconds(
    rows: Array | float,
    inner: float,
    outer: float,
    rates: Rates,
    size: float,
    *,
    weight_size: float | None = None,
    working_set: Array | float = np.inf,
    as_embedding: bool = False,
) -> Array:
    """Seconds of one product without its launch.

    Args:
        rows: of activations, any shape.
        inner, outer: of the weight [inner, outer].
        size: bytes of a number of the activations.
        weight_size: bytes of a number of the weight, where it is another.
        working_set: bytes that come between two reads of this weight; a processor's caches may
            hold it.
        as_embedding: whether the weight lies [outer, inner], of which GPUs take no notice.
    """
    rows = np.asarray(rows, dtype=float)
    if rates.measured is not None:
        number = rates.measured.number_seconds(rows, working_set, as_embedding)
        return inner * outer * number
    moved = rows * (inner + outer) * size + inner * outer * (weight_size or size)
    memory = moved / (rates.bandwidth * rates.efficiency.memory)
    return overlapped(compute_seconds(rows, inner, outer, rates, size, weight_size), memory)
