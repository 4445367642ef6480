"""Typical times of operations on this processor.

Medians are taken, not the best of many: predicted is what is typical. Every operation is sampled in
several passes over all of them, so that a busy moment spoils no entry of a table alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Clock = Callable[[], int]

_PASSES, _SECONDS = 3, 0.015  # of each operation in each pass, at least, and two samples


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
