"""Student's t with any positive number of degrees of freedom, and the beta distribution behind it.

Where noise is pooled over cases the degrees are no whole number, and tests over a grid need tails
of 1e-7 to many digits, so neither tables nor `1 - cdf` will do.
"""

from __future__ import annotations

import math
from functools import lru_cache

_EPSILON = 1e-15
_STEPS = 500  # the fraction needs about sqrt(dof) of them; beyond _NORMAL it is not used
_NORMAL = 1e6  # degrees from which on t is the normal distribution to six digits and more


def upper_tail(t: float, dof: float) -> float:
    """P(T > t) of Student's t.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.1 with 26.5.8.
    """
    if t < 0:
        return 1 - upper_tail(-t, dof)
    if dof >= _NORMAL:
        return math.erfc(t / math.sqrt(2)) / 2
    x = dof / (dof + t * t)
    return _beta(x, t * t / (dof + t * t), dof / 2, 0.5) / 2


@lru_cache(maxsize=4096)
def quantile(tail: float, dof: float) -> float:
    """The t with P(T > t) = tail, for a tail below one half."""
    return mixed_quantile(tail, dof, dof, 0.0)


def mixed_quantile(tail: float, dof: float, other_dof: float, share: float) -> float:
    """The t with P(T > t) = tail, where T has other degrees of freedom with probability `share`."""
    assert 0 < tail <= 0.5, "an upper tail is at most one half"
    wanted = math.log(tail)

    def above(t: float) -> float:
        own = upper_tail(t, dof)
        mixed = own if not share else (1 - share) * own + share * upper_tail(t, other_dof)
        return math.log(mixed) - wanted

    low, high = 0.0, 1.0
    at_low = above(low)
    while (at_high := above(high)) > 0:
        low, high, at_low = high, high * 2, at_high
    # The Illinois method: a line through both ends, one end's weight halved where it stays.
    for _ in range(_STEPS):
        if abs(high - low) <= 1e-13 * high or at_high == 0:
            break
        t = high - at_high * (high - low) / (at_high - at_low)
        at_t = above(t)
        if at_t * at_high > 0:
            at_low /= 2
        else:
            low, at_low = high, at_high
        high, at_high = t, at_t
        if abs(at_t) < 1e-14:
            break
    return high


def beta_quantile(below: float, a: float, b: float) -> float:
    """The x with P(X <= x) = below of the beta distribution."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _beta(middle, 1 - middle, a, b) < below else (low, middle)
    return (low + high) / 2


def _beta(x: float, rest: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), given x and 1 - x."""
    if x <= 0 or rest <= 0:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(rest, x, b, a)
    log_front = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    )
    return math.exp(log_front) / (a * _fraction(x, a, b))


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of 26.5.8, 1 + d1/(1 + d2/(1 + ...)), by Lentz's method."""
    value = numerator = 1.0
    denominator = 0.0
    for step in range(1, _STEPS):
        m = step // 2
        if step % 2:
            d = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            d = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        denominator = 1 / (1 + d * denominator)
        numerator = 1 + d / numerator
        factor = numerator * denominator
        value *= factor
        if abs(factor - 1) < _EPSILON:
            return value
    raise ArithmeticError(f"the incomplete beta function of {a}, {b} at {x} does not converge")
