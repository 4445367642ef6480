"""Confidence intervals over processes, by Student's t, and least squares with one on the slope.

A handful of processes is all there is, and there the percentile bootstrap covers too little; t on
logarithms fits times, whose noise is multiplicative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.analysis.student import quantile

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate and the bounds of its two-sided confidence interval."""

    value: float
    low: float
    high: float


def t_multiplier(dof: float, confidence: float = CONFIDENCE) -> float:
    """The t with P(|T| <= t) = confidence; the half-width of an interval in standard errors."""
    return quantile((1 - confidence) / 2, dof)


def mean(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The arithmetic mean with a t interval. Needs two values."""
    n = len(values)
    assert n >= 2, "an interval needs two values"
    centre = math.fsum(values) / n
    variance = math.fsum((v - centre) ** 2 for v in values) / (n - 1)
    half = t_multiplier(n - 1, confidence) * math.sqrt(variance / n)
    return Interval(centre, centre - half, centre + half)


def geometric_mean(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The geometric mean with a t interval on the logarithms. Needs two positive values."""
    if min(values) == max(values):
        # Counts of bytes repeat exactly; logarithms there and back would change the last digit.
        return Interval(values[0], values[0], values[0])
    logs = mean([math.log(v) for v in values], confidence)
    return Interval(math.exp(logs.value), math.exp(logs.low), math.exp(logs.high))


@dataclass(frozen=True)
class Line:
    """y = intercept + slope * x, fitted; the slope's bounds are None where points are too few."""

    intercept: float
    slope: float
    slope_low: float | None
    slope_high: float | None


def fit_line(
    x: Sequence[float],
    y: Sequence[float],
    noise: Sequence[float] | None = None,
    confidence: float = CONFIDENCE,
) -> Line:
    """Weighted least squares with a t interval on the slope.

    Args:
        x: where; at least two different values.
        y: what was seen there.
        noise: standard deviation of each y up to one common factor, which the residuals estimate;
            all equal when None.
        confidence: of the slope's interval.
    """
    assert len(set(x)) >= 2, "a line needs two different places"
    weights = [1.0] * len(x) if noise is None else [1 / (n * n) for n in noise]
    total = math.fsum(weights)
    x_mean = math.fsum(w * a for w, a in zip(weights, x, strict=True)) / total
    y_mean = math.fsum(w * b for w, b in zip(weights, y, strict=True)) / total
    spread = math.fsum(w * (a - x_mean) ** 2 for w, a in zip(weights, x, strict=True))
    products = zip(weights, x, y, strict=True)
    slope = math.fsum(w * (a - x_mean) * (b - y_mean) for w, a, b in products) / spread
    intercept = y_mean - slope * x_mean
    dof = len(x) - 2
    if dof < 1:
        return Line(intercept, slope, None, None)
    residuals = (b - intercept - slope * a for a, b in zip(x, y, strict=True))
    variance = math.fsum(w * r * r for w, r in zip(weights, residuals, strict=True)) / dof
    half = t_multiplier(dof, confidence) * math.sqrt(variance / spread)
    return Line(intercept, slope, slope - half, slope + half)
