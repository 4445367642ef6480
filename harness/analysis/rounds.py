"""How many rounds a machine's noise needs: forecast from the pairs that it has shown so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.analysis.judge import Rules, Ruling, smallest_change

CHANGES = (0.01, 0.02, 0.03, 0.05, 0.10)
MOST = 10_000  # rounds beyond which nobody measures


@dataclass(frozen=True)
class Noise:
    """How far the pairs of one metric scatter: as in the median case, and as in the noisiest."""

    metric: str
    usual: Ruling  # with an sd
    worst: Ruling


def noise(rulings: Sequence[tuple[str, Ruling]]) -> list[Noise]:
    """The noise of each metric from its rulings: (metric, ruling). Rows without noise count not."""
    found = []
    for metric in dict.fromkeys(name for name, _ in rulings):
        seen = sorted((r for name, r in rulings if name == metric and r.sd), key=_sd)
        if seen:
            found.append(Noise(metric, seen[len(seen) // 2], seen[-1]))
    return found


def forecast(change: float, seen: Ruling, family: int, rules: Rules) -> int | None:
    """Rounds after which a change of that size would be found in a case with that noise."""
    return rounds_for(change, _sd(seen), seen.prior_dof, family, rules, seen.alone)


def rounds_for(
    change: float,
    sd: float,
    prior_dof: float,
    family: int,
    rules: Rules | None = None,
    alone: float = 0.0,
) -> int | None:
    """Rounds after which a change of that size is found 19 times in 20; None beyond `MOST`.

    Args:
        change: relative, 0.03 for 3 %.
        sd: of one pair's logarithm.
        prior_dof: degrees of freedom that pooling adds to the pairs' own.
        family: rows that are tested together.
        rules: what counts as a change; what is not above its margin is never found.
        alone: probability that pooling does not hold for the row.
    """
    rules = rules or Rules()
    wanted = math.log1p(change)

    def enough(n: int) -> bool:
        return smallest_change(sd, n, prior_dof, family, rules, alone=alone) <= wanted

    if wanted <= rules.least or not enough(MOST):
        return None
    low, high = 1, MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _sd(ruling: Ruling) -> float:
    assert ruling.sd is not None, "only rows with noise are asked for it"
    return ruling.sd
