"""A time budget: which runs to make when there is no time for all.

The rule: round by round, so that every case has one run before any has two. While the rest of a
round is expected to fit it is taken in its random order, otherwise cheapest first, since cheap
cases buy the most answers. No run is started that is expected to end too late; what is left then
is told at the end. A run that hangs may still overrun the budget, by its own timeout.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from harness.errors import UsageError, printable
from harness.sweep.order import Turn

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smh])", re.ASCII)


def parse_duration(text: str) -> float:
    """Seconds of "90s", "10m" or "1.5h"; UsageError for anything else, and for nothing at all."""
    match = _DURATION.fullmatch(text.strip().lower())
    seconds = float(match[1]) * _UNITS_S[match[2]] if match else 0.0
    if seconds <= 0:
        message = "a duration is a number and s, m or h ('90s', '10m', '1h'), not '"
        raise UsageError(f"{message}{printable(text)}'")
    return seconds


def choose(waiting: Sequence[Turn], expected_s: Callable[[Turn], float], left_s: float) -> int:
    """The place in `waiting` of the turn to take next; -1 when none is expected to fit.

    Args:
        waiting: turns still to take, in the sweep's order: rounds one after another.
        expected_s: seconds a turn is expected to take.
        left_s: seconds left of the budget.
    """
    start = 0
    while start < len(waiting):
        end = start
        while end < len(waiting) and waiting[end].round == waiting[start].round:
            end += 1
        costs = [expected_s(turn) for turn in waiting[start:end]]
        if sum(costs) <= left_s:
            return start
        cheapest = min(costs)
        if cheapest <= left_s:
            return start + costs.index(cheapest)
        start = end
    return -1


class Expectation:
    """How long the next run of a case is expected to take, from an estimate and what was seen.

    A case that was measured is expected to take as long again; of the others, the estimates are
    scaled by the median ratio of seen to estimated, since an estimate is wrong mostly by a factor.

    Args:
        estimates_s: by case hash, seconds of a run before anything was seen.
    """

    def __init__(self, estimates_s: Mapping[str, float]) -> None:
        self._estimates_s = dict(estimates_s)
        self._seen_s: dict[str, float] = {}
        self._ratio = 1.0

    def observe(self, case_hash: str, seconds: float) -> None:
        """A run of this case took so long; the longest one counts."""
        self._seen_s[case_hash] = max(seconds, self._seen_s.get(case_hash, 0.0))
        ratios = [
            seen / self._estimates_s[case]
            for case, seen in self._seen_s.items()
            if self._estimates_s.get(case, 0.0) > 0
        ]
        self._ratio = median(ratios) if ratios else 1.0

    def seconds(self, case_hash: str) -> float:
        """Expected seconds of this case's next run."""
        if case_hash in self._seen_s:
            return self._seen_s[case_hash]
        return self._estimates_s[case_hash] * self._ratio
