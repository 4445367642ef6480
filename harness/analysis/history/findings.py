"""What changed in each series, before anybody asks why: steps, drift, noise, counts that moved.

Positions are indices into the series' own nights. Sizes are relative, up is worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from harness.analysis.detect import drift as slow
from harness.analysis.detect import noise
from harness.analysis.detect.replay import LEAST_SIZE, Nights, Step, aligned, replay, strided
from harness.analysis.detect.settings import DEFAULT, Settings
from harness.analysis.detect.tonight import LEAST_BEFORE, NEWEST, look, smallest
from harness.analysis.history.series import Floats, Series
from harness.analysis.student import upper_tail

Kind = Literal["step", "drift", "noise"]
# By which a change was found: the history's models, the newest nights, the distance to the accepted
# level, the scatter, cells that moved together, or a count that repeats to the digit.
By = Literal["history", "tonight", "level", "scatter", "group", "count"]

# Nights that the level on either side of a change is taken from, at most.
LEVEL = 20
# Any method of finding steps: logarithms (up is worse) to steps, a list for each series.
Method = Callable[[Sequence[Floats]], list[list[Step]]]


@dataclass(frozen=True)
class Finding:
    """One change in one series."""

    series: int  # its place in the history's series
    kind: Kind
    by: By
    at: int  # the first night at the new level
    first: int  # with `at`: where it may have begun
    found: int  # the night that found it
    effect: float  # logarithm, up is worse; of a noise, of the ratio of standard deviations
    low: float  # 95 % interval of the effect
    high: float
    confidence: float | None  # probability of a step, or 1 - p; None where a method has none
    note: str = ""

    @property
    def worse(self) -> bool:
        """Whether it is a change for the worse."""
        return self.effect > 0


@dataclass(frozen=True)
class Judged:
    """One series looked at."""

    findings: tuple[Finding, ...]  # in the order of their places
    sd: float | None  # of a night, as a logarithm; None for a series too short
    smallest: float | None  # change that a few nights would have shown
    refused: str = ""  # why it could not be judged


def models(settings: Settings = DEFAULT, nights: Nights = strided) -> Method:
    """The harness's own detector."""
    return lambda series: replay(series, settings, nights)


def judge(
    series: Sequence[Series],
    accepted: Mapping[int, tuple[int, float | None]] | None = None,
    settings: Settings = DEFAULT,
    method: Method | None = None,
) -> list[Judged]:
    """Look at every series.

    Args:
        series: what to look at.
        accepted: for a series (by its place), the night from which on a level was accepted, and
            that level in the metric's unit (None: what those nights have). Changes before it are
            history and are not reported.
        settings: the detector's.
        method: finds steps; None is the harness's own.
    """
    accepted = accepted or {}
    found = method or models(settings)
    outcome: list[Judged | None] = [_refusal(s) for s in series]
    ready = [i for i, done in enumerate(outcome) if done is None]
    logs = {i: series[i].logs for i in ready}
    starts = {i: min(accepted.get(i, (0, None))[0], len(logs[i]) - 1) for i in ready}
    counted = [i for i in ready if series[i].exact]
    noisy = [i for i in ready if not series[i].exact]
    for i in counted:
        outcome[i] = Judged(tuple(_counts(i, logs[i], starts[i], settings)), 0.0, settings.effect)
    steps = dict(zip(noisy, found([logs[i] for i in noisy]), strict=True))
    newest = _newest(noisy, logs, steps, settings)
    for i in noisy:
        x, start = logs[i], starts[i]
        # An accepted change is found again a night or two off.
        known = [s for s in steps[i] if s.at > (start + settings.near if start else 0)]
        # Later nights may have shown that a step was none.
        changes = [
            change
            for change in (_step(i, x, s, known) for s in known)
            if abs(change.effect) >= LEAST_SIZE * settings.effect
        ]
        clean = aligned(x, steps[i], 0, len(x) - 1)
        if i in newest and not any(c.at >= newest[i].at - settings.near for c in changes):
            changes.append(newest[i])
        if not changes:
            level = accepted.get(i, (0, None))[1]
            sign = -1.0 if series[i].metric.direction == "higher" else 1.0
            target = None if level is None or level <= 0 else sign * math.log(level)
            since = aligned(x, known, start, len(x) - 1)
            changes += _drift(i, since, target, start, settings)
        changes += _noise(i, clean, start, settings)
        sd = float(noise.scale(x[None, -64:])[0]) if len(x) > 2 else None
        shown = None if sd is None else smallest(sd, len(x))
        outcome[i] = Judged(tuple(sorted(changes, key=lambda c: c.at)), sd, shown)
    return [judged for judged in outcome if judged is not None]


def _refusal(series: Series) -> Judged | None:
    if series.metric.direction == "neither":
        return Judged((), None, None, f"{series.metric.name} is neither better high nor low")
    if np.any(~np.isfinite(series.values)) or np.any(series.values <= 0):
        if series.exact:
            known = np.all(np.isfinite(series.values)) and np.all(series.values >= 0)
            return None if known else Judged((), None, None, "holds a number below zero")
        return Judged(
            (), None, None, "holds a value that is not positive, so no ratio of it exists"
        )
    if len(series.values) < 2:
        return Judged((), None, None, "one night is no history yet")
    return None


def _counts(i: int, x: Floats, start: int, settings: Settings) -> list[Finding]:
    """A number that repeats to the digit, against the best since it was accepted."""
    best, last = float(x[start:].min()), float(x[-1])
    effect = last - best if last - best >= settings.effect else last - float(x[start])
    moved = np.flatnonzero(np.sign(np.diff(x[start:])) == np.sign(effect)) + start + 1
    if abs(effect) < settings.effect or not len(moved):
        return []
    at = int(moved[-1])
    return [Finding(i, "step", "count", at, at, at, effect, effect, effect, 1.0)]


def _newest(
    noisy: Sequence[int],
    logs: Mapping[int, Floats],
    steps: Mapping[int, Sequence[Step]],
    settings: Settings,
) -> dict[int, Finding]:
    """Suspicions of the newest nights, by series; those of one length are asked together."""
    by_length: dict[int, list[int]] = {}
    longest = 20 + NEWEST[-1]
    for i in noisy:
        length = min(len(logs[i]), longest)
        if length >= LEAST_BEFORE + NEWEST[0]:
            by_length.setdefault(length, []).append(i)
    found = {}
    for length, members in by_length.items():
        windows = np.array(
            [aligned(logs[i], steps[i], len(logs[i]) - length, len(logs[i]) - 1) for i in members]
        )
        seen = look(windows, settings)
        for row, i in enumerate(members):
            if seen.suspect[row]:
                n, at = int(seen.nights[row]), len(logs[i]) - int(seen.nights[row])
                effect, sd = float(seen.effect[row]), float(seen.sd[row])
                half = 2 * sd * math.sqrt(1 / n + 1 / (length - n))
                p = upper_tail(float(seen.t[row]), length - n - 1)
                found[i] = Finding(
                    i, "step", "tonight", at, max(len(logs[i]) - NEWEST[-1], 1), len(logs[i]) - 1,
                    effect, effect - half, effect + half, 1 - p,
                )  # fmt: skip
    return found


def _step(i: int, x: Floats, step: Step, known: Sequence[Step]) -> Finding:
    """A step with its size from the levels on either side, up to the next ones."""
    edges = [0, *sorted(s.at for s in known), len(x)]
    place = edges.index(step.at)
    left = x[max(edges[place - 1], step.at - LEVEL) : step.at]
    right = x[step.at : min(edges[place + 1], step.at + LEVEL)]
    effect = float(np.median(right) - np.median(left))
    sd = float(noise.scale(x[None, :])[0])
    # A median's error is 1.25 times a mean's.
    half = 2 * 1.25 * sd * math.sqrt(1 / len(left) + 1 / len(right))
    likely = step.probability if math.isfinite(step.probability) else None
    return Finding(
        i, "step", "history", step.at, step.first, step.found,
        effect, effect - half, effect + half, likely,
    )  # fmt: skip


def _drift(
    i: int, x: Floats, accepted: float | None, start: int, settings: Settings
) -> list[Finding]:
    found = slow.drift(x, accepted, settings)
    if found is None or not found.real:
        return []
    half = 2 * found.error
    p = upper_tail(found.effect / found.error, found.dof)
    last = start + len(x) - 1
    at = start + len(x) - slow.LEVEL_NIGHTS
    return [
        Finding(i, "drift", "level", at, min(start + slow.LEVEL_NIGHTS, at), last,
                found.effect, found.effect - half, found.effect + half, 1 - p)
    ]  # fmt: skip


def _noise(i: int, x: Floats, start: int, settings: Settings) -> list[Finding]:
    ratio = slow.noise_ratio(x[start:], settings)
    if ratio is None or 1 / slow.NOISE_RATIO < ratio < slow.NOISE_RATIO:
        return []
    at, effect = len(x) - slow.NOISE_NIGHTS, math.log(ratio)
    note = f"nights scatter {ratio:.1f} times as much as the {slow.NOISE_NIGHTS} before them"
    return [Finding(i, "noise", "scatter", at, at, len(x) - 1, effect, effect, effect, 0.99, note)]
