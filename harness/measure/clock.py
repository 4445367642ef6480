"""The one clock of a run: nanoseconds, read after the device has finished, never backwards.

A clock that lies is answered with a ClockError, which the worker turns into a failed gate `clock`:
the run is `gate_failed`, and no number read off that clock is stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from harness.measure.trace import ClockError
from harness.technique import load

# Taken while this module is imported, which is before any technique: one that replaces the function
# in `time`, as late as in its own `__init__.py`, replaces it for itself.
_TIMER = time.perf_counter_ns


def _nothing() -> None:
    """The CPU has finished when the call returns."""


class Clock:
    """Stamps in ns. `synchronise` waits for the device before each reading."""

    def __init__(
        self,
        read: Callable[[], int] = _TIMER,
        synchronise: Callable[[], None] = _nothing,
    ) -> None:
        self._read = read
        self._synchronise = synchronise
        self._last: int | None = None

    def stamp(self) -> int:
        """Wait for the device, then read. ClockError when the time is before the last stamp's."""
        self._synchronise()
        now = self._read()
        if type(now) is not int:
            raise ClockError(f"the clock gave {now!r}, not a whole number of nanoseconds")
        if self._last is not None and now < self._last:
            raise ClockError(f"the clock went backwards by {self._last - now} ns")
        self._last = now
        return now


def for_device(device: str, target: str | None = None) -> Clock:
    """The clock of a device, "cpu" or "cuda"; `target` "module:function" replaces the reading."""
    read = _TIMER if target is None else load(target)
    if device == "cpu":
        return Clock(read)
    import torch

    return Clock(read, torch.cuda.synchronize)
