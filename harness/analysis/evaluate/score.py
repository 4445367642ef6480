"""What a detector made of trials: hits, false alerts and delays, as a nightly job would see them.

A nightly job looks at every prefix of a series. An alert is a change for the worse that lies more
than `NEAR` nights from every earlier alert; it hits when it lies within `NEAR` nights of the truth
and came when something had changed. Precision counts alerts, recall counts steps: a step that two
alerts surround, four nights apart, is one step found and no wrong alert.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.evaluate.trials import Trial

NEAR = 3
# Nights of history before a job looks for the first time.
FIRST = 10
# A step that was found within so many nights was found soon.
SOON = 5
# A step this many standard deviations high should be found.
CLEAR = 3.0


@dataclass(frozen=True)
class Alert:
    """A detector's word: on night `found` it said that the level changed at night `at`."""

    found: int
    at: int
    first: int | None = None  # where the change may have begun; None: at `at`

    @property
    def begin(self) -> int:
        """The earliest night of the change."""
        return self.at if self.first is None else self.first


Alerts = Sequence[Sequence[Alert]]  # a list for each trial, in the order in which they came
Detector = Callable[[Sequence[Trial]], Alerts]


@dataclass(frozen=True)
class Score:
    """Counts over trials; shares are properties, None where nothing was counted."""

    steps: int  # trials with one
    hits: int  # trials whose step was found
    right: int  # alerts that hit, one or two a step
    false: int  # alerts that hit nothing, in all trials
    quiet_false: int  # those in trials without a step
    quiet_nights: int  # nights in trials without a step
    quiet_trials: int
    quiet_flagged: int  # trials without a step that have an alert
    nights: int
    clear_steps: int
    clear_hits: int
    delays: tuple[int, ...]  # nights from the change to its hit; 0: on the first changed night

    @property
    def precision(self) -> float | None:
        """Share of alerts that hit."""
        return _share(self.right, self.right + self.false)

    @property
    def recall(self) -> float | None:
        """Share of steps that were hit."""
        return _share(self.hits, self.steps)

    @property
    def f1(self) -> float | None:
        """Harmonic mean of both, over all trials at once."""
        precision, recall = self.precision or 0.0, self.recall
        if recall is None:
            return None
        return 2 * precision * recall / (precision + recall) if recall else 0.0

    @property
    def clear_recall(self) -> float | None:
        """Share of steps of `CLEAR` standard deviations and more that were hit."""
        return _share(self.clear_hits, self.clear_steps)

    @property
    def false_per_100_nights(self) -> float | None:
        """False alerts in 100 nights of a series in which nothing changed."""
        rate = _share(self.quiet_false, self.quiet_nights)
        return None if rate is None else 100 * rate

    @property
    def soon(self) -> float | None:
        """Share of steps hit within `SOON` nights."""
        return _share(sum(d <= SOON for d in self.delays), self.steps)

    def delay(self, quantile: float) -> float | None:
        """Nights to a hit, of those that hit."""
        return float(np.quantile(self.delays, quantile)) if self.delays else None


def score(trials: Sequence[Trial], alerts: Alerts, first: int = FIRST) -> Score:
    """Counts over the trials. `first` is how long a history is when it is looked at first."""
    hits = right = false = quiet_false = quiet_flagged = clear_hits = 0
    delays = []
    for trial, said in zip(trials, alerts, strict=True):
        at = [alert for alert in said if _hits(alert, trial)]
        wrong = len(said) - len(at)
        right += len(at)
        false += wrong
        if trial.truth is None:
            quiet_false += wrong
            quiet_flagged += bool(said)
        elif at:
            hits += 1
            clear_hits += is_clear(trial)
            delays.append(at[0].found - trial.truth)
    quiet = [trial for trial in trials if trial.truth is None]
    return Score(
        steps=len(trials) - len(quiet),
        hits=hits,
        right=right,
        false=false,
        quiet_false=quiet_false,
        quiet_nights=_nights(quiet, first),
        quiet_trials=len(quiet),
        quiet_flagged=quiet_flagged,
        nights=_nights(trials, first),
        clear_steps=sum(t.truth is not None and is_clear(t) for t in trials),
        clear_hits=clear_hits,
        delays=tuple(delays),
    )


def is_clear(trial: Trial) -> bool:
    """Whether its step stands out of one night's noise."""
    return trial.step >= CLEAR * trial.noise


def news(found: Iterable[Alert], near: int = NEAR) -> list[Alert]:
    """Of what a detector says night after night, what is not near anything that it said before."""
    kept: list[Alert] = []
    for alert in found:
        if all(abs(alert.at - other.at) > near for other in kept):
            kept.append(alert)
    return kept


def _hits(alert: Alert, trial: Trial) -> bool:
    # What was said before anything had changed was luck.
    at = trial.truth
    return at is not None and alert.found >= at and abs(alert.at - at) <= NEAR


def _nights(trials: Sequence[Trial], first: int) -> int:
    return sum(max(len(t.values) - first + 1, 0) for t in trials)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
