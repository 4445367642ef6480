"""A difference of two ways of training beside what the seed alone makes of each."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from harness.analysis.student import quantile

_TAIL = 0.025  # of a 95 % interval, on each side


@dataclass(frozen=True)
class Difference:
    """Means over seeds, one less the other, in the unit of what was compared."""

    value: float
    spread: float | None  # half the 95 % interval that the seeds alone give; None: one seed

    @property
    def told(self) -> bool:
        """Whether there is one: a difference within the seeds' spread is none, and of one seed
        nobody knows."""
        return self.spread is not None and abs(self.value) > self.spread


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """`ours` less `theirs`, one number a seed: Student's two-sample interval, spreads pooled."""
    assert ours, "a difference has two sides"
    assert theirs, "a difference has two sides"
    value = statistics.mean(ours) - statistics.mean(theirs)
    freedom = len(ours) + len(theirs) - 2
    if min(len(ours), len(theirs)) < 2:
        return Difference(value, None)
    squares = sum((len(side) - 1) * statistics.variance(side) for side in (ours, theirs))
    error = (squares / freedom * (1 / len(ours) + 1 / len(theirs))) ** 0.5
    return Difference(value, quantile(_TAIL, freedom) * error)
