"""Noise pooled over cases: what a few pairs say about their own spread, and the others with them.

With five pairs a case's own variance is off by a factor of two and more, now and then it is tiny by
luck, and over a grid the luck is always found: those cases alarm. The cases of one metric are
measured on one machine in one session, so each case's variance is drawn towards what is usual
among them, as strongly as they agree (Smyth, Linear models and empirical Bayes methods, 2004,
section 3). How strongly is read from their quartiles: the few that are tiny by luck, against which
all this is, must not be taken for a sign that cases differ. Where cases differ widely, or are few,
each stays with its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median, quantiles

from harness.analysis.student import beta_quantile

# Fewer cases say nothing about how variances scatter.
LEAST_CASES = 12
# Degrees of freedom that pooling may add, a fifth apart: 1.0, 1.2, 1.44 and so on up to 237.
_PRIORS = tuple(1.2**step for step in range(31))


@dataclass(frozen=True)
class Variance:
    """A variance and the degrees of freedom that stand behind it."""

    value: float
    dof: float


@dataclass(frozen=True)
class _Quartiles:
    """Logarithms of the quartiles of F(dof, prior_dof)."""

    prior_dof: float
    lower: float
    middle: float
    upper: float


def pooled(own: Sequence[Variance]) -> list[Variance]:
    """Each variance drawn towards the usual one, with the degrees of freedom that it gains.

    Args:
        own: of the cases of one metric. A zero, a value that happened to repeat, says nothing
            about the usual noise and is drawn towards it like the others.
    """
    some = [v for v in own if v.value > 0]
    usual = _usual(some) if len(some) >= LEAST_CASES else None
    return list(own) if usual is None else [_drawn(v, usual) for v in own]


def _usual(some: Sequence[Variance]) -> Variance | None:
    """The prior: degrees of freedom by the quartiles' distance, value by the median; or none.

    Variances over their common scale follow F(dof, prior dof) where the true ones follow a scaled
    inverse chi-squared; the more degrees the closer they lie.
    """
    lower, middle, upper = quantiles([math.log(v.value) for v in some], method="inclusive")
    # One standard error wider than seen, about: few cases that agree by luck are pooled too much.
    spread = (upper - lower) * (1 + 1 / math.sqrt(len(some)))
    expected = _expected(median(v.dof for v in some))
    fitting = [q for q in expected if q.upper - q.lower >= spread]
    if not fitting:
        return None
    closest = fitting[-1]
    return Variance(math.exp(middle - closest.middle), closest.prior_dof)


def _drawn(own: Variance, usual: Variance) -> Variance:
    dof = own.dof + usual.dof
    return Variance((own.dof * own.value + usual.dof * usual.value) / dof, dof)


@lru_cache(maxsize=64)
def _expected(dof: float) -> tuple[_Quartiles, ...]:
    """The quartiles for each number of degrees that pooling may add, widest first."""
    return tuple(
        _Quartiles(prior, *(_log_f(tail, dof, prior) for tail in (0.25, 0.5, 0.75)))
        for prior in _PRIORS
    )


def _log_f(below: float, dof: float, prior: float) -> float:
    """The logarithm of a quantile of F: dof F / (dof F + prior) follows a beta distribution."""
    x = beta_quantile(below, dof / 2, prior / 2)
    return math.log(prior * x / (dof * (1 - x)))
