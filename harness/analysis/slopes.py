"""Lecture section 3 as a measurement: how the time per token grows with the sequence.

Without a cache every token costs a forward over the whole sequence, so the time per token grows
with it; with a key/value cache only the attention reads grow, and the line is near flat.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from harness.analysis.intervals import Line, fit_line
from harness.analysis.ratios import Point, point
from harness.analysis.results import Result
from harness.suite.points import GeneratePoint

# Elasticity: the time goes with the length to this power. Recompute's is near 1, a constant's is 0;
# up to this much (ten times the tokens in less than 1.6 times the time) a line is near flat. A
# convention of the report, whose numbers stand beside the words.
NEAR_FLAT = 0.2


@dataclass(frozen=True)
class Slope:
    """Time per token against sequence length for one stack: ns against tokens held."""

    stack: str
    lengths: tuple[float, ...]  # mean tokens held while decoding, one a point of the grid
    line: Line
    n_values: int  # processes the line was fitted through

    @property
    def level_ns(self) -> float:
        """Fitted time per token at the shortest length."""
        return self.line.intercept + self.line.slope * self.lengths[0]

    @property
    def per_thousand_ns(self) -> float:
        """Growth of the time per token over 1,000 tokens of sequence."""
        return self.line.slope * 1000

    @property
    def growth(self) -> float:
        """Growth over 1,000 tokens as a share of the time at the shortest length."""
        return self.per_thousand_ns / self.level_ns

    @property
    def near_flat(self) -> bool:
        """Whether even the steepest slope of the interval is near flat; False without one."""
        if self.line.slope_high is None or self.level_ns <= 0:
            return False
        shortest, longest = self.lengths[0], self.lengths[-1]
        rise = 1 + max(0.0, self.line.slope_high) * (longest - shortest) / self.level_ns
        return math.log(rise) / math.log(longest / shortest) <= NEAR_FLAT


@dataclass(frozen=True)
class SlopeGroup:
    """The slopes of all stacks at one batch and otherwise equal conditions."""

    conditions: Point  # the lengths of its workload are those of the first result
    slopes: tuple[Slope, ...]


def slopes(results: Sequence[Result], metric: str = "tpot") -> list[SlopeGroup]:
    """A fitted line for every stack with two lengths or more, grouped by equal conditions.

    Every process is one value. Its noise is taken as proportional to the time at that length, so
    that the long sequences, whose absolute noise is larger, do not drown the short ones.
    """
    conditions: dict[Point, Point] = {}
    grouped: dict[Point, dict[str, list[Result]]] = {}
    for result in results:
        if result.value(metric) is not None:
            at = point(result)
            # Everything but the lengths, which are the axis.
            lengths = {"prompt_tokens": 1, "new_tokens": 1}
            key = replace(at, workload=at.workload.model_copy(update=lengths))
            conditions.setdefault(key, at)
            grouped.setdefault(key, {}).setdefault(result.case.label, []).append(result)
    groups = []
    for key, stacks in grouped.items():
        lines = [_slope(stack, members, metric) for stack, members in stacks.items()]
        fitted = tuple(line for line in lines if line is not None)
        if fitted:
            groups.append(SlopeGroup(conditions[key], fitted))
    return groups


def held(workload: GeneratePoint) -> float:
    """Mean tokens in a sequence while its second to last new tokens are decided.

    Token j of N (from 0) is decided with P + j tokens known; the time per token is over
    j = 1 .. N - 1, whose mean is N / 2.
    """
    return workload.prompt_tokens + workload.new_tokens / 2


def _slope(stack: str, members: list[Result], metric: str) -> Slope | None:
    """The line of one stack, None where there is only one length."""
    x, y, noise = [], [], []
    for result in members:
        values = [value for _, value in result.metrics[metric].by_round]
        x += [held(result.case.generated)] * len(values)
        y += values
        noise += [fmean(values)] * len(values)
    lengths = tuple(sorted(set(x)))
    if len(lengths) < 2 or min(noise) <= 0:
        return None
    return Slope(stack, lengths, fit_line(x, y, noise), len(y))
