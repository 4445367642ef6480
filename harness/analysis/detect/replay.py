"""The detector: what each night, or a choice of nights, would have said about every series.

A night sees only what was known by then. Two models with different ideas of what noise is judge a
window of history; where both find a step likely it is reported, and from then on the level after it
is the accepted one. Nothing depends on anything but the series, so a replay is the history of
reports, and a test of the detector and its use are one code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.analysis.detect import correlated, modes, noise
from harness.analysis.detect.noise import Floats
from harness.analysis.detect.settings import DEFAULT, Settings


@dataclass(frozen=True)
class Step:
    """A change of level in one series; positions are nights, counted from 0."""

    found: int  # the night that reported it
    at: int  # the first night at the new level
    first: int  # with `last`: where it may have begun, with 90 % probability
    last: int
    worse: bool
    probability: float  # of the more doubtful model, that it lies within a few nights of `at`

    def overlaps(self, other: Step, near: int) -> bool:
        """Whether both are the same place."""
        return abs(self.at - other.at) <= near


# A step is reported from this share of the smallest worth a report on, as its size is estimated: a
# step of exactly that size is then missed seldom.
LEAST_SIZE = 0.7

Nights = Callable[[int], Sequence[int]]


def every(length: int) -> range:
    """All nights of a series of this length, as a nightly job sees them."""
    return range(length)


def strided(length: int, newest: int = 8, stride: int = 16) -> list[int]:
    """The newest nights and every 16th before: enough for a history seen for the first time.

    A change is then found up to 15 nights later than it was, at the same place.
    """
    return [t for t in range(length) if t >= length - newest or t % stride == stride - 1]


def replay(
    series: Sequence[Floats], settings: Settings = DEFAULT, nights: Nights = every
) -> list[list[Step]]:
    """The steps of each series in the order in which they are found.

    Args:
        series: logarithms of a metric, a value a night, up is worse; no value is missing.
        settings: the detector's.
        nights: which nights of a series of a given length are judged.
    """
    steps: list[list[Step]] = [[] for _ in series]
    judged: dict[int, list[int]] = {}
    for i, values in enumerate(series):
        for night in nights(len(values)):
            if night + 1 >= settings.shortest:
                judged.setdefault(night, []).append(i)
    for night in sorted(judged):
        by_length: dict[int, list[int]] = {}
        for i in judged[night]:
            by_length.setdefault(min(night + 1, settings.window), []).append(i)
        for length, members in by_length.items():
            first = night + 1 - length
            x = np.array([aligned(series[i], steps[i], first, night) for i in members])
            for row, step in _judge(x, [steps[i] for i in members], first, night, settings):
                steps[members[row]].append(step)
    return steps


def aligned(values: Floats, steps: Sequence[Step], first: int, night: int) -> Floats:
    """The window with the levels after accepted steps moved back to the level before them."""
    window = np.array(values[first : night + 1], dtype=float)
    edges = sorted(s.at - first for s in steps if 2 <= s.at - first <= len(window) - 2)
    bounds = [0, *edges, len(window)]
    for left, at, right in zip(bounds, bounds[1:], bounds[2:], strict=False):
        window[at:] -= np.mean(window[at:right]) - np.mean(window[left:at])
    return window


def _judge(
    x: Floats, known: Sequence[Sequence[Step]], first: int, night: int, settings: Settings
) -> list[tuple[int, Step]]:
    """New steps of this night: (row of the batch, step)."""
    sd = noise.scale(x)
    inner = noise.clipped(x, sd, settings)
    open_ = _open(x.shape, known, first, settings)
    one = [p * open_ for p in correlated.step_probability(inner, sd, settings)]
    one[1][:, x.shape[1] - settings.after_better + 1 :] = 0
    # The more doubtful of the two decides, so that where the first sees nothing, which is nearly
    # everywhere, the second need not be asked.
    bounds = settings.bound, settings.bound_better
    likely = [_near(p, settings).max(axis=1) >= b for p, b in zip(one, bounds, strict=True)]
    asked = np.flatnonzero(likely[0] | likely[1])
    if not len(asked):
        return []
    two = modes.step_probability(x[asked], sd[asked], inner[asked], settings)
    both = [np.minimum(a[asked], b) for a, b in zip(one, two, strict=True)]
    found = []
    for row in range(len(asked)):
        for probability, bound, worse in zip(both, bounds, (True, False), strict=True):
            here = _near(probability[row : row + 1], settings)[0]
            if here.max() < bound:
                continue
            place = _place(probability[row], int(here.argmax()), settings)
            place = _later(x[asked[row]], place, settings)
            if abs(_size(inner[asked[row]], place[1])) < LEAST_SIZE * settings.effect:
                continue
            begin, at, end = (first + position for position in place)
            found.append((int(asked[row]), Step(night, at, begin, end, worse, float(here.max()))))
            break
    return found


def _open(
    shape: tuple[int, ...], known: Sequence[Sequence[Step]], first: int, settings: Settings
) -> NDArray[np.bool_]:
    """Where a step is news: not within a few nights of one that is known, [B, T]."""
    open_ = np.ones(shape, dtype=bool)
    for row, steps in enumerate(known):
        for step in steps:
            begin = step.at - first - settings.near
            open_[row, max(begin, 0) : max(begin + 2 * settings.near + 1, 0)] = False
    return open_


def _near(probability: Floats, settings: Settings) -> Floats:
    """The probability that a step lies within a few nights of each night, [B, T]."""
    sums = np.pad(np.cumsum(probability, axis=1), ((0, 0), (1, 0)))
    nights = np.arange(probability.shape[1])
    low = np.maximum(nights - settings.near, 0)
    high = np.minimum(nights + settings.near + 1, len(nights))
    return np.asarray(sums[:, high] - sums[:, low])


def _size(inner: Floats, at: int) -> float:
    """How far the nights from `at` on lie above the 20 before it."""
    return float(inner[at:].mean() - inner[max(at - 20, 0) : at].mean())


def _place(probability: Floats, peak: int, settings: Settings) -> tuple[int, int, int]:
    """5 %, 50 % and 95 % of where the step lies, of the probability around the peak, [T]."""
    low = max(peak - settings.near, 0)
    around = np.cumsum(probability[low : peak + settings.near + 1])
    begin, at, end = np.searchsorted(around, np.array([0.05, 0.5, 0.95]) * around[-1])
    return low + int(begin), low + int(at), low + int(end)


def _later(x: Floats, place: tuple[int, int, int], settings: Settings) -> tuple[int, int, int]:
    """The place of a step that the models put at the last night that they consider.

    A large step is found there before it has lasted for `settings.after` nights; it began on the
    night that parts the old level from the newest two nights with the least absolute error. Nothing
    is clipped here: two nights of a new level are still taken for spikes there.
    """
    begin, at, end = place
    if end < len(x) - settings.after:
        return place
    old, new = np.median(x[max(begin - 20, 0) : begin]), np.median(x[-2:])
    # How much better the nights from `at` on fit the old level, added up night by night.
    older = np.abs(x[at:-2] - new) - np.abs(x[at:-2] - old)
    at += int(np.argmax(np.append(0.0, np.cumsum(older))))
    return begin, at, max(end, at)
