"""Our own detector on trials."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.analysis.detect.replay import replay
from harness.analysis.detect.settings import DEFAULT, Settings
from harness.analysis.evaluate.score import Alert, Alerts
from harness.analysis.evaluate.trials import Floats, Trial


def detect(trials: Sequence[Trial], settings: Settings = DEFAULT) -> Alerts:
    """Its reports of steps for the worse, a look every night."""
    found = replay([np.log(trial.values) for trial in trials], settings)
    return [[Alert(s.found, s.at, s.first) for s in steps if s.worse] for steps in found]


def offline(series: Sequence[Floats]) -> list[list[int]]:
    """Where it finds steps in either direction, in whole series of any scale.

    Levels are compared as they are where not all are positive, relative to their spread. A value
    that is missing (NaN) is taken to be the one before it.
    """
    return [[step.at for step in steps] for steps in replay([_scaled(values) for values in series])]


def _scaled(values: Floats) -> Floats:
    known = np.flatnonzero(np.isfinite(values))
    if not len(known):
        return np.zeros(len(values))
    before = np.searchsorted(known, np.arange(len(values)), side="right") - 1
    values = values[known[np.maximum(before, 0)]]
    if np.all(values > 0):
        return np.asarray(np.log(values))
    spread = float(np.std(values)) or 1.0
    return np.asarray((values - np.median(values)) / spread * 0.1)
