"""What the newest nights say by themselves: do they leave what the nights before make likely?

A change of level is certain only after some nights; this asks at once, with a prediction interval,
and so raises suspicions that a fresh session must bear out. The night is the unit, whatever it is
made of. Logarithms of a metric, up is worse, one row a series.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from harness.analysis.detect import noise
from harness.analysis.detect.noise import Floats
from harness.analysis.detect.settings import Settings
from harness.analysis.student import quantile

# How many of the newest nights are asked together; one alone finds the large changes at once.
NEWEST = (1, 2, 3, 4)
# The nights before that they are held against.
MOST_BEFORE, LEAST_BEFORE = 20, 8
# One-sided, for each of the questions. Beyond it stand about 1 % of the series of a quiet night.
TAIL = 0.004


@dataclass(frozen=True)
class Look:
    """What the newest nights of each row say; where several numbers of nights do, the surest."""

    suspect: np.ndarray[tuple[int], np.dtype[np.bool_]]  # [B]
    nights: np.ndarray[tuple[int], np.dtype[np.intp]]  # [B] how many nights say it
    effect: Floats  # [B] their mean above the mean before
    t: Floats  # [B] the same in standard errors of a prediction
    sd: Floats  # [B] of one night


def look(x: Floats, settings: Settings, tail: float = TAIL) -> Look:
    """The newest nights of every row against those before, [B, T].

    Rows that are shorter than `LEAST_BEFORE` and the newest night say nothing.
    """
    batch, nights = x.shape
    suspect = np.zeros(batch, dtype=bool)
    best = np.full(batch, -np.inf)
    of, effect, sds = np.ones(batch, dtype=np.intp), np.zeros(batch), np.zeros(batch)
    for newest in NEWEST:
        before = min(MOST_BEFORE, nights - newest)
        if before < LEAST_BEFORE:
            continue
        old = x[:, nights - newest - before : nights - newest]
        old = noise.clipped(old, noise.scale(old), settings)
        sd = np.maximum(old.std(axis=1, ddof=1), noise.QUIETEST)
        moved = x[:, nights - newest :].mean(axis=1) - old.mean(axis=1)
        t = moved / (sd * math.sqrt(1 / newest + 1 / before))
        beyond = t - quantile(tail, before - 1)
        says = (beyond > 0) & (moved >= settings.effect)
        # Of several that say so the surest; of none the newest night alone.
        better = says & (~suspect | (beyond > best))
        take = better | ((newest == NEWEST[0]) & ~suspect)
        best = np.where(take, beyond, best)
        of = np.where(take, newest, of)
        effect = np.where(take, moved, effect)
        sds = np.where(take, sd, sds)
        suspect |= says
    t_of = np.divide(effect, sds * np.sqrt(1 / of + 1 / MOST_BEFORE), where=sds > 0, out=0 * sds)
    return Look(suspect, of, effect, t_of, sds)


def smallest(sd: float, nights: int, power: float = 0.95, tail: float = TAIL) -> float | None:
    """The smallest change, as a logarithm, that a few nights would have shown; None without nights.

    Args:
        sd: of one night.
        nights: how many there are to compare with.
        power: how often it would have been seen.
        tail: as in `look`.
    """
    before = min(MOST_BEFORE, nights - NEWEST[-1])
    if before < LEAST_BEFORE:
        return None
    error = sd * math.sqrt(1 / NEWEST[-1] + 1 / before)
    return (quantile(tail, before - 1) + quantile(1 - power, before - 1)) * error
