"""What the change detector holds for true before it has seen a series, and when it speaks up.

Chosen on the tuning half of the series that `harness regress --evaluate` replays, by their names'
hash; what they give on the other half stands in that command's table.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """All parameters of the detector. Lengths are nights, effects are relative."""

    # The smallest change worth a report. Half of it is where the models begin to call a difference
    # a change: a change of exactly this size must still be more likely one than not.
    effect: float = 0.01
    # How much history the models see: enough to know a noise, few enough to follow it.
    window: int = 64
    # A change that was not found in this many nights is drift, which has a check of its own.
    recent: int = 32
    # The shortest stretches that a level is known from. After the change 4: one night is a spike,
    # and two clocks of a machine hold for days.
    before: int = 6
    after: int = 4
    # Nights on each side of a change that are one place: what lies within them is pooled when it is
    # found, and nothing else is found there afterwards.
    near: int = 3
    # Prior chance of a change on any one night, worse or better.
    hazard: float = 0.01
    # A change is reported when the probability that it lies in one place reaches this by both
    # models: the bounds are those of the best F1 score, which lies well below one half because a
    # doubtful place is still more often right than wrong. A step for the better must be surer and
    # last longer: it lowers the level that everything after it is held against.
    bound: float = 0.2
    bound_better: float = 0.7
    after_better: int = 8
    # Values further than this many standard deviations from the median of their neighbours are
    # moved there: a spike of one night then weighs no more than an unusual night.
    clip: float = 3.0
    clip_half: int = 3
    # Histories shorter than this say nothing.
    shortest: int = 10


DEFAULT = Settings()
