"""How often a case is repeated: warm-up until stable, then samples until they are precise enough.

Repetitions are opaque: `repeat` runs one at the case's own shape and gives its trace, or None when
no new prompts are left. The budget is counted on the system's monotonic clock, whatever clock the
traces were stamped with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.errors import UsageError
from harness.measure.interval import Median, grouped_median
from harness.measure.latency import step_gaps, timings
from harness.measure.trace import Trace
from harness.suite.case import MeasureSettings

Repeat = Callable[[], Trace | None]

# Two repetitions whose medians differ by less, or by less than twice the precision that is asked
# for, are the same speed: compilation, lazy allocation and cold caches change more.
_STABLE = 0.05
MOST_WARM_UPS = 6
# However many steps one repetition has, what differs between repetitions is only seen in several.
FEWEST_REPETITIONS = 3
# Warm-up may take this share of a run's measuring time, except for its first repetition, which is
# always made: the one that was gated ran watched and over poisoned memory, so at another speed.
WARM_UP_SHARE = 0.25


@dataclass(frozen=True)
class WarmUp:
    """Repetitions that nobody watched and that were thrown away."""

    repetitions: int
    stable: bool | None  # whether the last two agree; None where there were no two
    seconds: float
    shortest_ns: int | None  # None where there were no prompts for any


@dataclass(frozen=True)
class Sampled:
    """The timed repetitions, and why no more of them were made."""

    traces: tuple[Trace, ...]
    seconds: float
    stopped: Literal["precision", "time", "prompts"]
    typical: Median  # of the step gaps in ns; of the first token's time where there is no gap


def samples(trace: Trace) -> list[int]:
    """What the precision is judged by: step gaps in ns, or times to first token without any."""
    gaps = step_gaps(trace)
    # A batch that prefills together has one first token's time, not one a request.
    return gaps or sorted({timing.ttft_ns for timing in timings(trace)})[-1:]


def warm_up(repeat: Repeat, settings: MeasureSettings) -> WarmUp:
    """Repeat at least once, until two repetitions in a row agree or a bound is met.

    An expensive case is repeated once: what it costs before it is steady is little beside it.
    """
    started = time.monotonic()
    tolerance = max(_STABLE, 2 * settings.precision)
    bound = settings.max_seconds * WARM_UP_SHARE
    medians: list[float] = []
    durations: list[int] = []
    while len(medians) < MOST_WARM_UPS and not _agree(medians, tolerance):
        if durations and time.monotonic() - started + durations[-1] / 1e9 > bound:
            break
        trace = repeat()
        if trace is None:
            break
        medians.append(_typical([trace]).value)
        durations.append(trace.duration_ns)
    return WarmUp(
        repetitions=len(medians),
        stable=_agree(medians, tolerance) if len(medians) > 1 else None,
        seconds=time.monotonic() - started,
        shortest_ns=min(durations, default=None),
    )


def sample(repeat: Repeat, settings: MeasureSettings) -> Sampled:
    """Repeat until the median is as precise as asked, with at least `min_samples`, or time is up.

    One repetition is always made, even when it alone takes longer than `max_seconds`. No further
    one is begun that would not end in time, as far as the longest so far tells.
    """
    started = time.monotonic()
    traces: list[Trace] = []
    longest = 0.0
    while True:
        begun = time.monotonic()
        trace = repeat()
        if trace is None:
            if not traces:
                raise UsageError(
                    "no unused prompts are left for a timed repetition; use longer prompts, a "
                    "smaller batch or fewer rounds"
                )
            return _sampled(traces, started, "prompts")
        traces.append(trace)
        longest = max(longest, time.monotonic() - begun)
        if _precise(traces, settings):
            return _sampled(traces, started, "precision")
        if time.monotonic() - started + longest > settings.max_seconds:
            return _sampled(traces, started, "time")


def _precise(traces: Sequence[Trace], settings: MeasureSettings) -> bool:
    enough = sum(len(samples(trace)) for trace in traces) >= settings.min_samples
    if len(traces) < FEWEST_REPETITIONS or not enough:
        return False
    precision = _typical(traces).precision
    return precision is not None and precision <= settings.precision


def _typical(traces: Sequence[Trace]) -> Median:
    return grouped_median([samples(trace) for trace in traces], pool=True)


def _agree(medians: Sequence[float], tolerance: float) -> bool:
    if len(medians) < 2:
        return False
    low, high = sorted(medians[-2:])
    return high <= low * (1 + tolerance)


def _sampled(
    traces: Sequence[Trace], started: float, stopped: Literal["precision", "time", "prompts"]
) -> Sampled:
    return Sampled(tuple(traces), time.monotonic() - started, stopped, _typical(traces))
