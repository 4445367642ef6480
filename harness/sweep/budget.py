"""A time budget: which runs to make when there is no time for all.

The rule: the first round comes first, for as many cases as fit, cheapest expected first; then
further rounds, in the sweep's own order; and no run is started that is expected to end too late.
One run of a case tells far more than a second one, and cheap cases buy the most answers.
A run that hangs may still overrun the budget, by its own timeout.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import median

from harness.errors import UsageError, printable

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


def first_round(expected_s: Sequence[float], budget_s: float) -> frozenset[int]:
    """Places of the cases that one round of fits into the budget, cheapest first."""
    chosen: set[int] = set()
    for place in sorted(range(len(expected_s)), key=lambda i: (expected_s[i], i)):
        budget_s -= expected_s[place]
        if budget_s < 0:
            break
        chosen.add(place)
    return frozenset(chosen)


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

    def observe(self, case_hash: str, seconds: float) -> None:
        """A run of this case took so long; the longest one counts."""
        self._seen_s[case_hash] = max(seconds, self._seen_s.get(case_hash, 0.0))

    def seconds(self, case_hash: str) -> float:
        """Expected seconds of this case's next run."""
        if case_hash in self._seen_s:
            return self._seen_s[case_hash]
        ratios = [
            seen / self._estimates_s[case]
            for case, seen in self._seen_s.items()
            if self._estimates_s.get(case, 0.0) > 0
        ]
        return self._estimates_s[case_hash] * (median(ratios) if ratios else 1.0)
