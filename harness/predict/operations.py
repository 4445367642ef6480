"""Time a forward's operations on this processor: products, attention, and what lies between them.

What is read between two uses of a weight decides whether a cache still holds it, so every product
is timed among as many weights as its entry of the table says, the head's too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import silu

from harness.model.norm import RMSNorm
from harness.model.rope import RopeTable, frequencies, rotate
from harness.predict import attention
from harness.predict.measured import Array, Measured
from harness.predict.timing import Clock, Operation, typical
from harness.shape import ModelShape

_MIB = 1024**2
ROWS = (1, 2, 4, 8, 16, 32, 64, 256)
# Weights of a small model, of one that leaves the second-level cache, and of ones in memory.
WORKING_SETS = (1 * _MIB, 4 * _MIB, 16 * _MIB, 48 * _MIB, 96 * _MIB, 192 * _MIB)
# Products of no entry: rows, width, feed-forward, working set. They tell how the table serves.
OTHERS = ((3, 512, 1408, 70 * _MIB), (24, 512, 1408, 70 * _MIB), (100, 384, 1024, 8 * _MIB))
# Of one product of everything. A dtype that a processor emulates takes longer, wherever the
# weights lie: fewer of them tell as much.
_LONGEST_SECONDS = 0.3
_BETWEEN = ModelShape(
    vocab=64, width=256, layers=2, heads=8, kv_heads=8, head_dim=32, ff=768, max_len=256
)
# Rows of it, from what lies in the first caches to what leaves them, and operations, as
# `harness.cost` counts their launches.
_BETWEEN_ROWS, _BETWEEN_LAUNCHES = (64, 256, 1024, 4096), 7


def measure(kind: torch.dtype, now: Clock) -> tuple[Measured, float]:
    """The table of a dtype, and the best matrix rate, about ten seconds on an idle core."""
    square = _ones(512, 512, kind)
    (at_best,) = typical([Operation(lambda: torch.mm(square, square))], now)
    table, factor = _products(kind, now, 2 * 512**3 / at_best)
    more = _launch_more(kind, now)
    attended, (sizes, between) = attention.measure(kind, now), _between(kind, now)
    flops_per_s = max(2 * 512**3 / at_best, 2 * float((np.array(ROWS)[:, None] / table).max()))
    measured = Measured(
        rows=ROWS,
        head_factor=factor,
        working_sets=WORKING_SETS,
        launch_seconds_more=more,
        product_seconds=tuple(tuple(line) for line in table.tolist()),
        queries=attention.QUERIES,
        attention_widths=attention.WIDTHS,
        attention_flops_per_s=attended.flops_per_s,
        state_bytes_per_s=attended.state_bytes_per_s,
        between_sizes=sizes,
        between_bytes_per_s=between,
    )
    return measured, flops_per_s


def errors(measured: Measured, kind: torch.dtype, now: Clock) -> list[float]:
    """log(predicted / measured) of layers that the table does not hold."""
    layers = [_layers(rows, _weights(width, ff, held, kind)) for rows, width, ff, held in OTHERS]
    seconds = typical(layers, now)
    return [
        math.log(float(measured.number_seconds(rows, held)) / found)
        for (rows, _, _, held), found in zip(OTHERS, seconds, strict=True)
    ]


def _products(kind: torch.dtype, now: Clock, flops_per_s: float) -> tuple[Array, tuple[float, ...]]:
    """Seconds a number of the weight, [rows, working sets]; by rows, how a head's compare."""
    models = [_weights(*_sides(held), held, kind) for held in WORKING_SETS]
    most = _LONGEST_SECONDS * flops_per_s / 2
    layers = [
        _layers(rows, _affordable(weights, most / rows)) for rows in ROWS for weights in models
    ]
    heads = [_heads(rows, kind, most / rows) for rows in ROWS]
    seconds = np.array(typical([*layers, *heads], now))
    table = seconds[: len(layers)].reshape(len(ROWS), len(WORKING_SETS))
    factor = seconds[len(layers) :] / table[:, -1]
    return table, tuple(factor.tolist())


def _affordable(weights: Sequence[Sequence[Tensor]], numbers: float) -> Sequence[Sequence[Tensor]]:
    """The first layers, one at least, with so many numbers at most."""
    one = sum(weight.numel() for weight in weights[0])
    return weights[: max(1, int(numbers / one))]


def _launch_more(kind: torch.dtype, now: Clock) -> tuple[float, ...]:
    """Seconds that a small operation takes more among a working set's products than in the first.

    It computes next to nothing: what takes longer is the host's code and data, fetched again.
    """
    models = [_weights(*_sides(held), held, kind) for held in WORKING_SETS]
    small = _small(1, kind).run
    plain = [_layers(1, weights) for weights in models]
    mixed = [_layers(1, weights, small) for weights in models]
    seconds = np.array(typical([*plain, *mixed], now)).reshape(2, -1)
    numbers = np.array([each.counts for each in plain], dtype=float)
    launches = 2.0 * _BETWEEN_LAUNCHES * np.array([len(weights) for weights in models])
    added = (seconds[1] - seconds[0]) * numbers / launches
    # Noise must not say that the host is quicker where less is cached.
    return tuple(np.maximum.accumulate(np.maximum(added - added[0], 0.0)).tolist())


def _sides(held: int) -> tuple[int, int]:
    """Width and feed-forward of a model with so many bytes of weights."""
    width = 128 if held <= 2 * _MIB else 256 if held <= 32 * _MIB else 512
    return width, 3 * width


def _weights(width: int, ff: int, held: int, kind: torch.dtype) -> list[list[Tensor]]:
    """The four weights of each of as many layers as the working set holds."""
    sides = ((width, 3 * width), (width, width), (width, 2 * ff), (ff, width))
    numbers = sum(inner * outer for inner, outer in sides)
    layers = max(1, round(held / (numbers * kind.itemsize)))
    return [[_ones(*side, kind) for side in sides] for _ in range(layers)]


def _layers(
    rows: int, weights: Sequence[Sequence[Tensor]], beside: Callable[[], object] | None = None
) -> Operation:
    """The products of layers, two of them with a sum; it counts in numbers of the weights.

    Narrow matrices are read more slowly than wide ones, so a model's own mixture is timed.
    `beside` is done twice a layer.
    """
    down = weights[0][-1]
    x = _ones(rows, down.shape[1], down.dtype)
    wide = _ones(rows, down.shape[0], down.dtype)

    def through() -> None:
        for qkv, out, gate_up, down in weights:
            torch.mm(x, qkv)
            if beside is not None:
                beside()
            torch.addmm(x, x, out)
            torch.mm(x, gate_up)
            if beside is not None:
                beside()
            torch.addmm(x, wide, down)

    return Operation(through, sum(weight.numel() for layer in weights for weight in layer))


def _heads(rows: int, kind: torch.dtype, numbers: float) -> Operation:
    """Products with weights [outer, inner] as embeddings lie, as many as the last set holds.

    One alone would be found in the cache, where a model's own layers drive it out between steps.
    Of at most so many numbers, but one.
    """
    inner, outer = 512, 16384
    count = WORKING_SETS[-1] // (inner * outer * kind.itemsize)
    count = max(1, min(count, int(numbers / (inner * outer))))
    x, weights = _ones(rows, inner, kind), [_ones(outer, inner, kind).t() for _ in range(count)]

    def through() -> None:
        for weight in weights:
            torch.mm(x, weight)

    return Operation(through, count * inner * outer)


def _ones(rows: int, columns: int, kind: torch.dtype) -> Tensor:
    return torch.ones(rows, columns, dtype=kind)


def _between(kind: torch.dtype, now: Clock) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Bytes that one of a few operations moves, and bytes a second, by rows."""
    moved = [_between_numbers(rows) * kind.itemsize for rows in _BETWEEN_ROWS]
    seconds = typical([_small(rows, kind) for rows in _BETWEEN_ROWS], now)
    pairs = list(zip(moved, seconds, strict=True))
    return tuple(b / _BETWEEN_LAUNCHES for b, _ in pairs), tuple(b / s for b, s in pairs)


def _between_numbers(rows: int) -> int:
    """Numbers that two norms, a rotation and a gate move, as `attention_cost` counts them."""
    shape = _BETWEEN
    turned = (shape.heads + shape.kv_heads) * shape.head_dim
    return rows * (4 * shape.width + 2 * turned + 3 * shape.ff)


def _small(rows: int, kind: torch.dtype) -> Operation:
    """Two norms, a rotation and a gate of so many rows."""
    shape = _BETWEEN
    x = _ones(rows, shape.width, kind)
    norm = RMSNorm(torch.ones(shape.width, dtype=kind), shape.eps)
    qk = torch.ones(rows, shape.heads + shape.kv_heads, shape.head_dim, dtype=kind)
    turning = frequencies(shape.head_dim, *shape.rotation(0))
    table = RopeTable(turning, rows, kind, "cpu").at(list(range(rows)))
    gate = _ones(rows, 2 * shape.ff, kind)

    def through() -> None:
        norm(x)
        norm(x)
        rotate(qk, table)
        silu(gate[:, : shape.ff]).mul_(gate[:, shape.ff :])

    return Operation(through)
