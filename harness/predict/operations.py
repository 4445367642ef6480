"""Time a forward's operations on this processor: products, attention, and what lies between them.

Medians are taken, not the best of many: predicted is what is typical. Every operation is sampled in
several passes over all of them, so that a busy moment spoils no entry of the table alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention, silu

from harness.model.norm import RMSNorm
from harness.model.rope import RopeTable, frequencies, rotate
from harness.predict.measured import Array, Measured
from harness.shape import ModelShape

_MIB = 1024**2
ROWS = (1, 2, 4, 8, 16, 32, 64, 256)
# Weights of a small model, of one that leaves the second-level cache, and of ones in memory.
WORKING_SETS = (1 * _MIB, 4 * _MIB, 16 * _MIB, 64 * _MIB, 192 * _MIB)
QUERIES = (1, 16, 64, 256, 1024)
# Products of no entry: rows, width, feed-forward, working set. They tell how the table serves.
OTHERS = ((3, 512, 1408, 48 * _MIB), (24, 512, 1408, 48 * _MIB), (100, 384, 1024, 4 * _MIB))
_HEADS, _HEAD_DIMS = 8, (32, 64)
_BETWEEN = ModelShape(
    vocab=64, width=256, layers=2, heads=8, kv_heads=8, head_dim=32, ff=768, max_len=256
)
_PASSES, _SECONDS = 3, 0.015  # of each operation in each pass, at least, and two samples

Clock = Callable[[], int]


class Operation(NamedTuple):
    """What is timed, and how many of what is counted it does: calls, numbers of a weight."""

    run: Callable[[], Any]
    counts: int = 1


def clock(threads: int) -> Clock:
    """Nanoseconds: of one thread those that it computed, as waiting for a core is no operation's.

    Of several it is the wall's: their processor time says nothing about their end.
    """
    return time.process_time_ns if threads == 1 else time.perf_counter_ns


def typical(operations: Sequence[Operation], now: Clock) -> list[float]:
    """Median seconds of each, for one of what it counts, over passes that take all in turn."""
    taken: list[list[int]] = [[] for _ in operations]
    for _ in range(_PASSES):
        for operation, samples in zip(operations, taken, strict=True):
            operation.run()
            begun, made = time.perf_counter(), 0
            while made < 2 or time.perf_counter() - begun < _SECONDS:
                start = now()
                operation.run()
                samples.append(now() - start)
                made += 1
    pairs = zip(operations, taken, strict=True)
    return [max(float(np.median(samples)), 1.0) * 1e-9 / each.counts for each, samples in pairs]


def measure(kind: torch.dtype, now: Clock) -> tuple[Measured, float]:
    """The table of a dtype, and the best matrix rate, about ten seconds on an idle core."""
    table, factor = _products(kind, now)
    square = Operation(partial(torch.mm, _ones(512, 512, kind), _ones(512, 512, kind)))
    (at_best,) = typical([square], now)
    rates, state = _attention(kind, now)
    flops_per_s = max(2 * 512**3 / at_best, 2 * float((np.array(ROWS)[:, None] / table).max()))
    measured = Measured(
        rows=ROWS,
        head_factor=factor,
        working_sets=WORKING_SETS,
        product_seconds=tuple(tuple(line) for line in table.tolist()),
        queries=QUERIES,
        attention_flops_per_s=rates,
        state_bytes_per_s=state,
        between_bytes_per_s=_between(kind, now),
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


def _products(kind: torch.dtype, now: Clock) -> tuple[Array, tuple[float, ...]]:
    """Seconds a number of the weight, [rows, working sets]; by rows, how a head's compare."""
    models = [_weights(*_sides(held), held, kind) for held in WORKING_SETS]
    layers = [_layers(rows, weights) for rows in ROWS for weights in models]
    heads = [_head(rows, kind) for rows in ROWS]
    seconds = np.array(typical([*layers, *heads], now))
    table = seconds[: len(layers)].reshape(len(ROWS), len(WORKING_SETS))
    factor = seconds[len(layers) :] / table[:, -1]
    return table, tuple(factor.tolist())


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


def _layers(rows: int, weights: Sequence[Sequence[Tensor]]) -> Operation:
    """The products of layers, two of them with a sum; it counts in numbers of the weights.

    Narrow matrices are read more slowly than wide ones, so a model's own mixture is timed.
    """
    # Many rows take long, and hardly notice where the weights come from.
    used = weights if rows <= 16 else weights[:2]
    down = used[0][-1]
    x = _ones(rows, down.shape[1], down.dtype)
    wide = _ones(rows, down.shape[0], down.dtype)

    def through() -> None:
        for qkv, out, gate_up, down in used:
            torch.mm(x, qkv)
            torch.addmm(x, x, out)
            torch.mm(x, gate_up)
            torch.addmm(x, wide, down)

    return Operation(through, sum(weight.numel() for layer in used for weight in layer))


def _head(rows: int, kind: torch.dtype) -> Operation:
    """Product with a weight [outer, inner] in memory, as an embedding lies."""
    inner, outer = 512, 16384
    weight = _ones(outer, inner, kind).t()
    return Operation(partial(torch.mm, _ones(rows, inner, kind), weight), inner * outer)


def _ones(rows: int, columns: int, kind: torch.dtype) -> Tensor:
    return torch.ones(rows, columns, dtype=kind)


def _attention(kind: torch.dtype, now: Clock) -> tuple[tuple[float, ...], float]:
    """FLOPs a second by queries, and bytes of state a second.

    Both of a decode step follow from two that differ in their key/value heads alone.
    """
    B, S = 8, 512
    shapes = [(1, T, T, _HEADS) for T in QUERIES[1:]]
    shapes += [(B, 1, S, _HEADS), (B, 1, S, _HEADS // 4)]
    rates = np.zeros((len(_HEAD_DIMS), len(QUERIES)))
    moved = np.zeros(len(_HEAD_DIMS))
    for i, H in enumerate(_HEAD_DIMS):
        seconds = typical([_attend(*shape, H, kind) for shape in shapes], now)
        *prompts, every, grouped = seconds
        held = 2.0 * B * S * _HEADS * H * kind.itemsize
        # A quarter of the bytes for the same FLOPs; a busy moment may hide what they save.
        moved[i] = 0.75 * held / max(every - grouped, 0.1 * every)
        flops = 4.0 * B * _HEADS * H * S
        rates[i, 0] = flops / max(every - held / moved[i], 0.05 * every)
        for j, (T, found) in enumerate(zip(QUERIES[1:], prompts, strict=True), start=1):
            rates[i, j] = 4.0 * _HEADS * H * T * (T + 1) / 2 / found
    return tuple(np.exp(np.log(rates).mean(axis=0)).tolist()), float(np.exp(np.log(moved).mean()))


def _attend(B: int, T: int, S: int, K: int, H: int, kind: torch.dtype) -> Operation:
    """As the engine does it: a prompt's causal attention, or grouped queries as rows."""
    k, v = (torch.ones(B, K, S, H, dtype=kind) for _ in range(2))
    q = torch.ones(*((B, K, _HEADS // K, H) if T == 1 else (B, _HEADS, T, H)), dtype=kind)
    return Operation(partial(scaled_dot_product_attention, q, k, v, is_causal=T > 1))


def _between(kind: torch.dtype, now: Clock) -> float:
    """Bytes a second of norms, rotation and gate over 256 rows, as `attention_cost` counts them."""
    rows, shape = 256, _BETWEEN
    x = _ones(rows, shape.width, kind)
    norm = RMSNorm(torch.ones(shape.width, dtype=kind), shape.eps)
    qk = torch.ones(rows, shape.heads + shape.kv_heads, shape.head_dim, dtype=kind)
    turning = frequencies(shape.head_dim, *shape.rotation(0))
    table = RopeTable(turning, rows, kind, "cpu").at(list(range(rows)))
    gate = _ones(rows, 2 * shape.ff, kind)

    def between() -> None:
        norm(x)
        norm(x)
        rotate(qk, table)
        silu(gate[:, : shape.ff]).mul_(gate[:, shape.ff :])

    turned = (shape.heads + shape.kv_heads) * shape.head_dim
    moved = rows * (4 * shape.width + 2 * turned + 3 * shape.ff) * kind.itemsize
    return moved / typical([Operation(between)], now)[0]
