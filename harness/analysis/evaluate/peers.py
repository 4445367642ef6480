"""Detectors of other tools, as they are used: each a function of trials to alerts.

Their libraries are an optional part of the installation. What each is given and how its parameters
are set stands at the function; `reference` figures of their authors are not compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

from harness.analysis.evaluate.score import FIRST, Alert, Alerts, Detector, news
from harness.analysis.evaluate.trials import Floats, Trial
from harness.errors import UsageError

# Where the positions of changes for the worse are, in one prefix of a series.
Prefix = Callable[[Floats], list[int]]


def library(name: str) -> Any:
    """A library of the extra `peers` or `asv`; UsageError with the command that installs it."""
    try:
        return import_module(name)
    except ImportError:
        raise UsageError(
            f"{name.partition('.')[0]} is not installed; "
            "pip install -c constraints.txt -e '.[asv,peers]'"
        ) from None


def nightly(detect: Prefix) -> Detector:
    """The detector on every prefix from the first look on."""

    def replay(trials: Sequence[Trial]) -> Alerts:
        return [
            news(
                Alert(n - 1, at)
                for n in range(FIRST, len(trial.values) + 1)
                for at in detect(trial.values[:n])
            )
            for trial in trials
        ]

    return replay


def asv_steps(least: float = 0.01) -> Detector:
    """asv's step detector, unweighted: steps up of `least` and more between neighbouring levels."""
    detect_steps = library("asv.step_detect").detect_steps

    def prefix(values: Floats) -> list[int]:
        steps = detect_steps(list(values))
        return [
            int(right[0]) for left, right in pairwise(steps) if right[2] >= left[2] * (1 + least)
        ]

    return nightly(prefix)


def pelt(penalty: float) -> Detector:
    """PELT with squared error on logarithms, penalty k ln(n) s^2; s from differences (MAD).

    As dynamic programming (KernelCPD, linear), which gives the same segments and is quicker.
    """
    kernel = library("ruptures").KernelCPD(kernel="linear", min_size=3, jump=1)

    def prefix(values: Floats) -> list[int]:
        logs = np.log(values)
        differences = np.diff(logs)
        spread = np.median(np.abs(differences - np.median(differences)))
        sd = max(1.4826 * float(spread) / np.sqrt(2), 1e-9)
        signal = logs.reshape(-1, 1)
        ends = kernel.fit(signal).predict(pen=penalty * np.log(len(logs)) * sd**2)
        return _ups(logs, ends)

    return nightly(prefix)


def pelt_rbf(penalty: float) -> Detector:
    """PELT with a Gaussian kernel (median heuristic) on logarithms."""
    ruptures = library("ruptures")

    def prefix(values: Floats) -> list[int]:
        logs = np.log(values)
        # A new one each time: the kernel's width is taken from the first signal that it sees.
        kernel = ruptures.KernelCPD(kernel="rbf", min_size=3, jump=1)
        return _ups(logs, kernel.fit(logs.reshape(-1, 1)).predict(pen=penalty))

    return nightly(prefix)


def mann_whitney(p: float, before: int = 20, after: int = 5, least_before: int = 10) -> Detector:
    """The last nights against those before them, exact two-sided test."""
    test = library("scipy.stats").mannwhitneyu

    def replay(trials: Sequence[Trial]) -> Alerts:
        # Windows of one shape are tested in one call, which is what takes the time.
        windows: dict[int, list[tuple[int, int]]] = {}
        for i, trial in enumerate(trials):
            for split in range(least_before, len(trial.values) - after + 1):
                windows.setdefault(min(split, before), []).append((i, split))
        found: list[list[Alert]] = [[] for _ in trials]
        for length, places in windows.items():
            old = np.array([trials[i].values[split - length : split] for i, split in places])
            new = np.array([trials[i].values[split : split + after] for i, split in places])
            tested = test(new, old, method="exact", axis=1).pvalue < p
            higher = np.median(new, axis=1) > np.median(old, axis=1)
            for at in np.flatnonzero(tested & higher):
                i, split = places[at]
                found[i].append(Alert(split + after - 1, split))
        return [news(sorted(said, key=lambda alert: alert.found)) for said in found]

    return replay


def sigma(bound: float, before: int = 20, least_before: int = 8) -> Detector:
    """Tonight against mean and standard deviation of the nights before."""

    def prefix(values: Floats) -> list[int]:
        old = values[-1 - before : -1]
        if len(old) < least_before or values[-1] <= old.mean() + bound * old.std(ddof=1):
            return []
        return [len(values) - 1]

    return nightly(prefix)


# Each with how it is called; made when it is asked for, as a library may be missing.
PEERS: dict[str, Callable[[], Detector]] = {
    "asv step detection, 1 %": asv_steps,
    "PELT, penalty 5": partial(pelt, 5.0),
    "PELT rbf, penalty 3": partial(pelt_rbf, 3.0),
    "PELT rbf, penalty 5": partial(pelt_rbf, 5.0),
    "Mann-Whitney 20 v 5, p < .01": partial(mann_whitney, 0.01),
    "Mann-Whitney 20 v 5, p < .001": partial(mann_whitney, 0.001),
    "two-sigma, last 20": partial(sigma, 2.0),
    "three-sigma, last 20": partial(sigma, 3.0),
}


def _ups(logs: Floats, ends: Sequence[int]) -> list[int]:
    """Where segments begin that lie above the one before; `ends` as ruptures gives them."""
    bounds = [0, *ends]
    means = [logs[a:b].mean() for a, b in pairwise(bounds)]
    return [bounds[i + 1] for i, (left, right) in enumerate(pairwise(means)) if right > left]
