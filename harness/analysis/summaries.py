"""What many verdicts come to: means of ratios, and the rounds that this machine's noise needs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.analysis.judge import Rules, Ruling
from harness.analysis.rounds import CHANGES, forecast, noise
from harness.analysis.verdict import Need, Summary, Verdict


def summaries(rows: Sequence[Verdict], cases: int) -> tuple[Summary, ...]:
    """The geometric mean of each metric's ratios, with how many of the cases it leaves out."""
    found = []
    for name in dict.fromkeys(row.subject.metric for row in rows):
        ratios = [row.ratio for row in rows if row.subject.metric == name and row.ratio]
        if ratios:
            centre = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
            found.append(
                Summary(
                    metric=name,
                    ratio=centre,
                    worst=min(ratios),
                    best=max(ratios),
                    cases=len(ratios),
                    left_out=cases - len(ratios),
                )
            )
    return tuple(found)


def needs(seen: Sequence[tuple[str, Ruling]], family: int, rules: Rules) -> tuple[Need, ...]:
    """Rounds for changes of several sizes, by metric."""
    return tuple(
        Need(
            metric=found.metric,
            change=change,
            usual=forecast(change, found.usual, family, rules),
            worst=forecast(change, found.worst, family, rules),
        )
        for found in noise(seen)
        for change in CHANGES
        if change > rules.margin
    )
