"""Medians with nonparametric intervals, and weighted percentiles.

The interval is the binomial one of order statistics: between which two of the sorted values does
the median lie with at least 95 %. It assumes no distribution, so a stray slow step does not widen
it. Source: David and Nagaraja, Order Statistics, 7.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

CONFIDENCE = 0.95
# Below this even the smallest and the largest value enclose the median with less than 95 %.
FEWEST = 6
# From here on the binomial is summed by its normal approximation; the ranks then agree within one.
_EXACT_UP_TO = 1000


@dataclass(frozen=True)
class Median:
    """A median and the bounds of its interval; bounds are None where values are too few."""

    value: float
    low: float | None
    high: float | None

    @property
    def precision(self) -> float | None:
        """Half the interval's width as a share of the median; None without an interval."""
        if self.low is None or self.high is None or self.value <= 0:
            return None
        return (self.high - self.low) / 2 / self.value


def median(values: Sequence[float]) -> Median:
    """The median of at least one value, with its interval from six values on."""
    ordered = sorted(values)
    n = len(ordered)
    middle = ordered[n // 2] if n % 2 else (ordered[n // 2 - 1] + ordered[n // 2]) / 2
    if n < FEWEST:
        return Median(middle, None, None)
    rank = lower_rank(n)
    return Median(middle, ordered[rank - 1], ordered[n - rank])


def grouped_median(groups: Sequence[Sequence[float]], *, pool: bool) -> Median:
    """The median over all values of all groups (repetitions), with an interval.

    The interval is over the groups' medians, since values of one repetition share its luck, and,
    where they are taken along a growing sequence, its trend. With fewer than six groups it is over
    the values themselves where `pool` allows it, and absent otherwise.
    """
    pooled = median([value for group in groups for value in group])
    if len(groups) >= FEWEST:
        over = median([median(group).value for group in groups])
        return Median(pooled.value, over.low, over.high)
    return pooled if pool else Median(pooled.value, None, None)


@cache
def lower_rank(n: int) -> int:
    """The largest rank r (from 1) such that [x_r, x_(n+1-r)] holds the median with 95 %."""
    tail = (1 - CONFIDENCE) / 2
    if n > _EXACT_UP_TO:
        return math.floor((n - 1.959964 * math.sqrt(n)) / 2)
    total, rank = 0, 0
    for k in range(n):
        total += math.comb(n, k)
        if total > tail * 2**n:
            break
        rank = k + 1
    return rank


def percentile(weighted: Sequence[tuple[float, float]], share: float) -> float:
    """The smallest value up to which (value, weight) pairs hold that share of all weight."""
    ordered = sorted(weighted)
    wanted = share * math.fsum(weight for _, weight in ordered)
    seen = 0.0
    for value, weight in ordered:
        seen += weight
        # One part in 1e9 forgives the rounding of share * total, as in 0.9 * 10.
        if seen >= wanted * (1 - 1e-9):
            return value
    return ordered[-1][0]
