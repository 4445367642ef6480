"""Slow changes: where a series stands against the level that was accepted, and how noisy it became.

Steps are found where they happen. What creeps, or comes in steps each too small to be seen, is
found against a level that does not move with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from harness.analysis.detect import noise
from harness.analysis.detect.noise import Floats
from harness.analysis.detect.settings import Settings
from harness.analysis.student import quantile

# Nights that a level is taken from, at either end.
LEVEL_NIGHTS = 10
# One-sided; and how much wider the error of a level is than that of independent nights, because
# neighbouring nights share what state the machine is in.
TAIL, SHARED = 0.001, 1.5
# A drift is reported from twice the effect of a step on: it is the sum of several.
LEAST_STEPS = 2.0
# Noise has changed when the newest nights scatter this much more or less than those before; with
# 20 nights on either side the ratio of two equal noises is beyond it once in 800 looks.
NOISE_NIGHTS, NOISE_RATIO = 20, 2.75


@dataclass(frozen=True)
class Drift:
    """How far the newest nights lie above the accepted level."""

    effect: float  # logarithm, up is worse
    error: float
    dof: int
    real: bool


def drift(x: Floats, accepted: float | None, settings: Settings) -> Drift | None:
    """The newest nights against the accepted level; None with too few of them.

    Args:
        x: logarithms of one series, up is worse, known steps taken back, [T].
        accepted: the level on the same scale; None: that of the first nights.
    """
    if len(x) < 2 * LEVEL_NIGHTS + (settings.before if accepted is None else 0):
        return None
    row = x[None, :]
    inner = noise.clipped(row, noise.scale(row), settings)[0]
    new = inner[-LEVEL_NIGHTS:]
    old = inner[:LEVEL_NIGHTS]
    level = float(old.mean()) if accepted is None else accepted
    variance = (new.var(ddof=1) + old.var(ddof=1)) / LEVEL_NIGHTS
    error = SHARED * max(math.sqrt(variance), noise.QUIETEST)
    effect, dof = float(new.mean()) - level, 2 * (LEVEL_NIGHTS - 1)
    least = max(LEAST_STEPS * settings.effect, quantile(TAIL, dof) * error)
    return Drift(effect, error, dof, effect > least)


def noise_ratio(x: Floats, settings: Settings) -> float | None:
    """The scatter of the newest nights over that of those before; None with too few nights."""
    if len(x) < 2 * NOISE_NIGHTS:
        return None
    old, new = x[None, -2 * NOISE_NIGHTS : -NOISE_NIGHTS], x[None, -NOISE_NIGHTS:]
    scatter = []
    for part in (old, new):
        sd = noise.scale(part)
        inner = noise.clipped(part, sd, settings)
        scatter.append(max(float(np.diff(inner, axis=1).std(ddof=1)), noise.QUIETEST))
    return scatter[1] / scatter[0]
