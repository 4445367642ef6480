"""Noise pooled over cases: what a few pairs say about their own spread, and the others with them.

With five pairs a case's own variance is off by a factor of two and more, now and then it is tiny by
luck, and over a grid the luck is always found: those cases alarm. The cases of one metric are
measured on one machine in one session, so each case's variance is drawn towards what is usual
among them, as strongly as they agree (Smyth, Linear models and empirical Bayes methods, 2004,
section 3). How strongly is read from their quartiles: the few that are tiny by luck, against which
all this is, must not be taken for a sign that cases differ. Where cases differ widely, or are few,
each stays with its own.

Quartiles do not see a few cases that are much noisier than the rest, and drawn towards the rest
those would alarm. So each case is taken to be noisier than the others with some probability, given
its variance and how many such cases there seem to be, and its test is that mixture: of the pooled
noise, and of its own alone where it is the larger one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median, quantiles

from harness.analysis.student import beta_quantile, upper_tail

# Fewer cases say nothing about how variances scatter.
LEAST_CASES = 12
# Degrees of freedom that pooling may add, a fifth apart: 1.0, 1.2, 1.44 and so on up to 237.
_PRIORS = tuple(1.2**step for step in range(31))


# A case that is noisier than the others may be so by any factor up to thirty: a range of logarithms
# of variances, each as likely as the next.
_RANGE = math.log(1000)
_TURNS = 30  # of the estimate of how many cases are noisier; it moves little after ten


@dataclass(frozen=True)
class Variance:
    """A variance and the degrees of freedom that stand behind it."""

    value: float
    dof: float


@dataclass(frozen=True)
class Noise:
    """What is known of a case's noise: pooled, by itself, and how likely it stands by itself."""

    usual: Variance  # its own drawn towards the others'
    own: Variance  # never below the usual: what is tiny is tiny by luck
    alone: float  # probability that the case is noisier than the others

    def upper_tail(self, mean: float, n: int) -> float:
        """P(mean of n > `mean`) where nothing changed."""
        tail = _tail(mean, n, self.usual)
        if not self.alone:
            return tail
        return (1 - self.alone) * tail + self.alone * _tail(mean, n, self.own)


def _tail(mean: float, n: int, noise: Variance) -> float:
    if noise.value <= 0:
        # All values agree to the digit, and no other case tells the noise: their signs remain.
        return 0.5**n if mean > 0 else 1.0
    return upper_tail(mean / math.sqrt(noise.value / n), noise.dof)


@dataclass(frozen=True)
class _Quartiles:
    """Logarithms of the quartiles of F(dof, prior_dof)."""

    prior_dof: float
    lower: float
    middle: float
    upper: float


def pooled(own: Sequence[Variance]) -> list[Noise]:
    """Each variance beside itself drawn towards the usual one, with the degrees that it gains.

    Args:
        own: of the cases of one metric. A zero, a value that happened to repeat, says nothing
            about the usual noise and is drawn towards it like the others.
    """
    some = [v for v in own if v.value > 0]
    usual = _usual(some) if len(some) >= LEAST_CASES else None
    if usual is None:
        return [Noise(v, v, 0.0) for v in own]
    drawn = [_drawn(v, usual) for v in own]
    floored = [Variance(max(v.value, d.value), v.dof) for v, d in zip(own, drawn, strict=True)]
    return [Noise(*known) for known in zip(drawn, floored, _alone(own, usual), strict=True)]


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


def _alone(own: Sequence[Variance], usual: Variance) -> list[float]:
    """For each case the probability that it is noisier than the others.

    One case more than there are is counted as such: that none seems to be is no proof.
    """
    densities = [_density(v, usual) for v in own]
    share, found = 1.0, [1.0] * len(own)
    for _ in range(_TURNS):
        share = (1 + math.fsum(found)) / (2 + len(own))
        flat = share / _RANGE
        found = [flat / (flat + (1 - share) * density) for density in densities]
    return found


def _density(own: Variance, usual: Variance) -> float:
    """The density of the logarithm of a variance of one of the others, F(own dof, usual dof).

    Where it is below the usual, it says as little for more noise as the usual itself.
    """
    a, b = own.dof / 2, usual.dof / 2
    ratio = max(own.value / usual.value, 1.0) * own.dof / usual.dof
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    return math.exp(a * math.log(ratio) - (a + b) * math.log1p(ratio) - log_beta)


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
