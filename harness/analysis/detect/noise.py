"""How noisy a series is, and what of it is taken back before it is judged.

All functions take logarithms of a metric, one row a series: [B, T].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.analysis.detect.settings import Settings

Floats = NDArray[np.float64]

# Median absolute deviation to standard deviation, for a normal distribution.
MAD_TO_SD = 1.4826
# Quieter than this is taken as this: counts repeat exactly, and no model takes a noise of zero.
QUIETEST = 1e-3


def scale(x: Floats) -> Floats:
    """Standard deviation of one night, [B], from the differences of neighbours.

    A change of level is one difference among many, so it hardly enters, whenever it happened.
    """
    differences = np.abs(np.diff(x, axis=1))
    return np.asarray(np.maximum(MAD_TO_SD * np.median(differences, axis=1) / np.sqrt(2), QUIETEST))


def clipped(x: Floats, sd: Floats, settings: Settings) -> Floats:
    """The same with no value further from the median of its neighbours than the bound, [B, T].

    Neighbours are `clip_half` nights on either side; the last nights have those before them.
    """
    nights = x.shape[1]
    width = min(2 * settings.clip_half + 1, nights)
    first = np.clip(np.arange(nights) - settings.clip_half, 0, nights - width)
    middle = np.median(x[:, first[:, None] + np.arange(width)], axis=2)
    reach = settings.clip * sd[:, None]
    return np.clip(x, middle - reach, middle + reach)
