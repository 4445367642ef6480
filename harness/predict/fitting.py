"""Fitting a few positive constants, without a library for it: a pattern search on logarithms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_FIRST_STEP = 0.2  # of the logarithm
_LAST_STEP = 0.003


def minimise(badness: Callable[[Sequence[float]], float], start: Sequence[float]) -> list[float]:
    """Positive numbers near `start` at which `badness` is least.

    Hooke and Jeeves' search ("Direct search", JACM 1961): each constant is tried a step up and
    down, a success is followed in its direction, and steps are halved where nothing helps. It
    needs no derivative, and the same numbers come out everywhere.
    """
    best = [math.log(value) for value in start]
    least = badness([math.exp(value) for value in best])
    step = _FIRST_STEP
    while step > _LAST_STEP:
        found, lower = _around(badness, best, least, step)
        if lower >= least:
            step /= 2
            continue
        # Once more as far in the direction that helped.
        ahead = [2 * new - old for new, old in zip(found, best, strict=True)]
        best, least = found, lower
        further = badness([math.exp(value) for value in ahead])
        if further < least:
            best, least = ahead, further
    return [math.exp(value) for value in best]


def log_errors(predicted: Array, measured: Array) -> Array:
    """log(predicted / measured), which is symmetric: half and double are equally wrong."""
    errors: Array = np.log(predicted / measured)
    return errors


def _around(
    badness: Callable[[Sequence[float]], float], at: Sequence[float], least: float, step: float
) -> tuple[list[float], float]:
    found = list(at)
    for i in range(len(found)):
        here = found[i]
        for there in (here + step, here - step):
            found[i] = there
            lower = badness([math.exp(value) for value in found])
            if lower < least:
                least = lower
                break
            found[i] = here
    return found, least
