"""First model of a series: a level with noise that may be correlated and may drift, and one step.

x = level + slope * t + noise, where the noise is white plus a part that nights share with their
neighbours (machines warm up, clocks hold for days). How strong that part and the slope are is not
known: every combination of a small grid is a model, and a step at every night is one more.
All of them are linear and normal, so that level, slope, step and noise are integrated exactly and a
whole batch of series is two matrix products a combination (Bayesian linear regression with the
conjugate prior; REML for the level).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from harness.analysis.detect.noise import Floats
from harness.analysis.detect.settings import Settings

# Variance of the shared part against the white one, with prior weights. Half of the weight says
# that nights are independent.
SHARED = ((0.0, 0.6), (0.3, 0.1), (1.0, 0.1), (3.0, 0.1), (8.0, 0.1))
# What two neighbouring nights have in common of it: a state that holds for 3 to 7 nights.
NEIGHBOURS = 0.7
# Standard deviation of the slope a night, in units of the noise.
SLOPES = ((0.0, 0.7), (0.03, 0.3))
# Weight of the noise that was estimated from differences, in nights.
PRIOR_NIGHTS = 4.0
# A step is expected to be of this size, relative; in units of the noise within these bounds.
STEP, STEP_LEAST, STEP_MOST = 0.05, 2.0, 20.0


@dataclass(frozen=True)
class _Design:
    """One combination for windows of one length: what a batch is multiplied by."""

    whiten: Floats  # [T, T]: residuals of the level, whitened
    match: Floats  # [T, C]: x @ match is the whitened product with a step at each candidate
    power: Floats  # [C]: the squared length of each whitened step
    log_volume: float


def candidates(nights: int, settings: Settings) -> range:
    """Where in a window of this length a step may begin."""
    return range(
        max(settings.before, nights - settings.recent), max(nights - settings.after + 1, 0)
    )


def step_probability(x: Floats, sd: Floats, settings: Settings) -> tuple[Floats, Floats]:
    """Probability of a step for the worse, and for the better, at each night of the window.

    Args:
        x: clipped logarithms, up is worse, [B, T].
        sd: their noise from differences, [B].

    Returns:
        Two arrays [B, T], zero where no step may begin; with the probability of no step at all
        they add up to 1.
    """
    batch, nights = x.shape
    worse, better = np.zeros((2, batch, nights))
    at = candidates(nights, settings)
    if not at:
        return worse, better
    z = x / sd[:, None]
    least = settings.effect / 2 / sd[:, None]
    prior = np.clip(STEP / sd, STEP_LEAST, STEP_MOST)[:, None] ** 2  # [B, 1]
    dof = PRIOR_NIGHTS + nights - 1
    none, log_worse, log_better = [], [], []
    for (shared, weight), (slope, other) in product(SHARED, SLOPES):
        design = _design(nights, at.start, at.stop, shared, slope)
        rest = np.sum((z @ design.whiten.T) ** 2, axis=1)[:, None] + PRIOR_NIGHTS  # [B, 1]
        product_ = z @ design.match  # [B, C]
        variance = prior / (1 + prior * design.power)
        left = np.maximum(rest - product_**2 * variance, 1e-9)
        base = math.log(weight * other) - design.log_volume / 2
        none.append(base - dof / 2 * np.log(rest[:, 0]))
        step = base - np.log1p(prior * design.power) / 2 - dof / 2 * np.log(left)
        size, error = product_ * variance, np.sqrt(variance * left / dof)
        log_worse.append(step + _log_above((size - least) / error))
        log_better.append(step + _log_above((-size - least) / error))
    hazard = math.log(settings.hazard)
    no_step = np.logaddexp.reduce(none)
    up, down = (np.logaddexp.reduce(found) + hazard for found in (log_worse, log_better))
    total = np.logaddexp.reduce(np.column_stack([no_step, up, down]), axis=1)[:, None]
    worse[:, at.start : at.stop] = np.exp(up - total)
    better[:, at.start : at.stop] = np.exp(down - total)
    return worse, better


def _log_above(z: Floats) -> Floats:
    """Logarithm of the probability that a normal is below z, by the logistic approximation.

    It is 0.01 off at most, which no decision here notices (Bowling et al., 2009).
    """
    # logaddexp(0, y), which is several times as slow; beyond 30 it is y to the last digit.
    y = -1.702 * z
    return np.asarray(-np.where(y > 30, y, np.log1p(np.exp(np.minimum(y, 30)))))


@lru_cache(maxsize=2048)
def _design(nights: int, start: int, stop: int, shared: float, slope: float) -> _Design:
    t = np.arange(nights)
    centred = t - t.mean()
    covariance = (
        np.eye(nights)
        + shared * NEIGHBOURS ** np.abs(t[:, None] - t[None, :])
        + slope**2 * np.outer(centred, centred)
    )
    root = np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(root)
    level = inverse @ np.ones(nights)
    length = level @ level
    whiten = (np.eye(nights) - np.outer(level, level) / length) @ inverse
    steps = whiten @ (t[:, None] >= np.arange(start, stop)[None, :]).astype(float)  # [T, C]
    return _Design(
        whiten=whiten,
        match=whiten.T @ steps,
        power=np.sum(steps**2, axis=0),
        log_volume=float(2 * np.log(np.diag(root)).sum() + np.log(length)),
    )
