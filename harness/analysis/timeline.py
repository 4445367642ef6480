"""The course of a serve run, thinned for a drawing: means over equal stretches of time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from harness.run import RunRecord

_PREFIX = "timeline_"


@dataclass(frozen=True)
class Timeline:
    """Counters over time. All series have one value for each of `seconds`."""

    seconds: tuple[float, ...]  # middle of each stretch, from the start of the run
    series: dict[str, tuple[float, ...]]


def timeline(record: RunRecord, stretches: int = 160) -> Timeline | None:
    """The course that a run stored, a number a step; None where it stored none."""
    stored = {s.metric.removeprefix(_PREFIX): s.values for s in record.samples
              if s.metric.startswith(_PREFIX)}  # fmt: skip
    steps = stored.pop("step", [])
    if not steps:
        return None
    ends = [end / 1e9 for end in accumulate(steps)]
    width = ends[-1] / stretches
    edges = [width * i for i in range(stretches + 1)]
    return Timeline(
        tuple(width * (i + 0.5) for i in range(stretches)),
        {name: tuple(_means(values, ends, edges)) for name, values in stored.items()},
    )


def _means(values: Sequence[int], ends: Sequence[float], edges: Sequence[float]) -> list[float]:
    """Mean over each stretch of a counter that stands at values[i] from ends[i - 1] to ends[i]."""
    starts = [0.0, *ends[:-1]]
    area = [0.0, *accumulate(v * (b - a) for v, a, b in zip(values, starts, ends, strict=True))]

    def integral(at: float) -> float:
        i = min(bisect_right(ends, at), len(values) - 1)
        return area[i] + values[i] * (at - starts[i])

    return [(integral(high) - integral(low)) / (high - low) for low, high in pairwise(edges)]
