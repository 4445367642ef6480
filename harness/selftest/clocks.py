"""Clocks that lie, named in jobs by the self-test."""

from __future__ import annotations

import itertools
import time

_readings = itertools.count()
# After this many readings the clock is set back, as by a daemon that keeps the time of day.
_SET_BACK_AFTER = 13
_BACK_NS = 1_000_000_000
_TICK_NS = 10_000_000_000


def backwards() -> int:
    """The time, which is set back by a second in the middle of a run."""
    now = time.perf_counter_ns()
    return now if next(_readings) < _SET_BACK_AFTER else now - _BACK_NS


def standing() -> int:
    """A clock that ticks every ten seconds: nothing takes any time by it."""
    return time.perf_counter_ns() // _TICK_NS * _TICK_NS
