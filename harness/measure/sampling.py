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

# Two repetitions whose medians differ by less are the same speed: compilation, lazy allocation and
# cold caches change a first repetition by far more.
_STABLE = 1.1
_MOST_WARM_UPS = 6
# However many steps one repetition has, what differs between repetitions is only seen in several.
_FEWEST_REPETITIONS = 3
# Warm-up may take this share of a run's measuring time; the repetition that was gated came first
# and is not counted.
_WARM_UP_SHARE = 0.25


@dataclass(frozen=True)
class WarmUp:
    """Repetitions that were thrown away, and what the first one cost beyond a steady one."""

    repetitions: int
    stable: bool
    seconds: float  # without the first
    compile_seconds: float


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


def warm_up(first: Trace, repeat: Repeat, settings: MeasureSettings) -> WarmUp:
    """Repeat until two repetitions in a row agree, a bound on number or time is met.

    Args:
        first: the repetition at the same shape that was gated: the first of this process, so it
            paid for compilation.
    """
    started = time.monotonic()
    medians = [_typical([first]).value]
    shortest = first.duration_ns
    last = first.duration_ns / 1e9
    bound = settings.max_seconds * _WARM_UP_SHARE
    while len(medians) < _MOST_WARM_UPS and not _agree(medians):
        if time.monotonic() - started + last > bound:
            break
        trace = repeat()
        if trace is None:
            break
        medians.append(_typical([trace]).value)
        shortest = min(shortest, trace.duration_ns)
        last = trace.duration_ns / 1e9
    return WarmUp(
        repetitions=len(medians),
        stable=_agree(medians),
        seconds=time.monotonic() - started,
        compile_seconds=(first.duration_ns - shortest) / 1e9,
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
    if len(traces) < _FEWEST_REPETITIONS or not enough:
        return False
    precision = _typical(traces).precision
    return precision is not None and precision <= settings.precision


def _typical(traces: Sequence[Trace]) -> Median:
    return grouped_median([samples(trace) for trace in traces], pool=True)


def _agree(medians: Sequence[float]) -> bool:
    if len(medians) < 2:
        return False
    low, high = sorted(medians[-2:])
    return high <= low * _STABLE


def _sampled(
    traces: Sequence[Trace], started: float, stopped: Literal["precision", "time", "prompts"]
) -> Sampled:
    return Sampled(tuple(traces), time.monotonic() - started, stopped, _typical(traces))
