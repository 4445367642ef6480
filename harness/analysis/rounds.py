"""How many rounds a machine's noise needs: forecast from the pairs that it has shown so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from harness.analysis.judge import Rules, Ruling, smallest_change

CHANGES = (0.01, 0.02, 0.03, 0.05, 0.10)
MOST = 10_000  # rounds beyond which nobody measures


@dataclass(frozen=True)
class Noise:
    """How far the pairs of one metric scatter, as a standard deviation of logarithms."""

    metric: str
    usual: float  # the median case
    worst: float
    prior_dof: float


def noise(rulings: Sequence[tuple[str, Ruling]]) -> list[Noise]:
    """The noise of each metric from its rulings: (metric, ruling). Rows without noise count not."""
    found = []
    for metric in dict.fromkeys(name for name, _ in rulings):
        seen = [r for name, r in rulings if name == metric and r.sd]
        sds = [r.sd for r in seen if r.sd]
        if sds:
            prior = median(r.prior_dof for r in seen)
            found.append(Noise(metric, median(sds), max(sds), prior))
    return found


def rounds_for(
    change: float, sd: float, prior_dof: float, family: int, rules: Rules | None = None
) -> int | None:
    """Rounds after which a change of that size is found 19 times in 20; None beyond `MOST`.

    Args:
        change: relative, 0.03 for 3 %.
        sd: of one pair's logarithm.
        prior_dof: degrees of freedom that pooling adds to the pairs' own.
        family: rows that are tested together.
        rules: what counts as a change; what is not above its margin is never found.
    """
    rules = rules or Rules()
    wanted = math.log1p(change)

    def enough(n: int) -> bool:
        return smallest_change(sd, n, prior_dof, family, rules) <= wanted

    if wanted <= rules.least or not enough(MOST):
        return None
    low, high = 1, MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
