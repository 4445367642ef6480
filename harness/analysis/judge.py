"""From pairs of processes to verdicts: is this row worse, better, the same, or not known?

The one place where the harness decides that: `harness compare` and the colours of a report's table
both ask here. A row has changed for the worse when its change is a discovery among all rows in that
direction (Benjamini and Hochberg, q = 0.01), by a t test on the pairs' logarithms with noise pooled
over the metric's cases where they have it in common, and when its own 95 % interval lies beyond the
margin. It is the same when that interval lies within the margin, on both sides. All else is
unknown, with the smallest change that this many pairs would have shown.

A rank test is no help on the few pairs that a sweep can afford: with n pairs its smallest p is
2**-n, and one case among 200 needs 5e-5. What it would guard against, five pairs that agree by
luck, the pooled noise does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.analysis.discovery import Q, discoveries
from harness.analysis.intervals import CONFIDENCE, mean
from harness.analysis.pooling import Noise, Variance, pooled
from harness.analysis.student import mixed_quantile, quantile
from harness.analysis.verdict import VerdictName

MARGIN = 0.01  # a change that nobody would act on
POWER = 0.95  # a change that "would have been seen" is found this often


@dataclass(frozen=True)
class Rules:
    """What counts as a change."""

    margin: float = MARGIN
    q: float = Q
    confidence: float = CONFIDENCE

    @property
    def least(self) -> float:
        """The margin on logarithms."""
        return math.log1p(self.margin)

    def tail(self, share: float) -> float:
        """What each side of an interval leaves out."""
        return (1 - self.confidence) * share / 2


@dataclass(frozen=True)
class Evidence:
    """The pairs of one row: logarithms of times better, head over base, so up is better.

    `exact` says that both sides repeat to the digit, as counted bytes do: then there is no noise to
    test against. `share` is the part of the error that this look may spend, 1 where the pairs are
    looked at once; `spent` is the `Ruling.spent` of an earlier look (see `harness.analysis.looks`).
    """

    metric: str
    logs: tuple[float, ...]
    exact: bool = False
    share: float = 1.0
    spent: tuple[float, float] = (1.0, 1.0)


@dataclass(frozen=True)
class Ruling:
    """What the pairs of one row say. Bounds are None with fewer than two pairs."""

    verdict: VerdictName
    ratio: float
    low: float | None
    high: float | None
    n: int
    p: float | None = None  # for a change in the direction of the ratio
    smallest: float | None = None  # 0.03: a change of 3 % would have been seen
    sd: float | None = None  # of one pair's logarithm, pooled over the metric's cases
    prior_dof: float = 0.0  # what pooling added to the pairs' own degrees of freedom
    alone: float = 0.0  # probability that the row's noise is unlike the others'
    spent: tuple[float, float] = (1.0, 1.0)  # (worse, better), for the next look


def judge(rows: Sequence[Evidence], rules: Rules | None = None) -> list[Ruling]:
    """A ruling for each row; together they are the family of tests. A row needs a pair."""
    rules = rules or Rules()
    noise = _noise(rows)
    tested = [i for i, row in enumerate(rows) if noise[i] is not None]
    worse = [_p(rows[i], noise[i], -1, rules) for i in tested]
    better = [_p(rows[i], noise[i], +1, rules) for i in tested]
    # A family for each direction: many improvements must not make a regression easier to claim.
    fallen = dict(zip(tested, discoveries(worse, rules.q), strict=True))
    risen = dict(zip(tested, discoveries(better, rules.q), strict=True))
    spent = dict(zip(tested, zip(worse, better, strict=True), strict=True))
    rulings = []
    for i, row in enumerate(rows):
        known = noise[i]
        if known is None:
            rulings.append(_without_noise(row, rules))
            continue
        rulings.append(
            _ruling(row, known, fallen[i], risen[i], spent[i], max(len(tested), 1), rules)
        )
    return rulings


def smallest_change(
    sd: float,
    n: int,
    prior_dof: float,
    family: int,
    rules: Rules,
    share: float = 1.0,
    alone: float = 0.0,
) -> float:
    """The change, as a logarithm, that n pairs would find with probability `POWER`.

    Args:
        sd: of one pair's logarithm.
        n: pairs, two at least.
        prior_dof: degrees of freedom that pooling adds.
        family: rows that are tested; this one is taken to be the only one that changed.
        rules: what counts as a change.
        share: of the error that the look may spend.
        alone: probability that the row's noise stands by itself, without those degrees.
    """
    error, dof = sd / math.sqrt(n), n - 1 + prior_dof
    discovery = mixed_quantile(rules.q * share / family, dof, n - 1, alone) * error
    clear = rules.least + quantile(rules.tail(share), n - 1) * error
    return max(discovery, clear) + quantile(1 - POWER, dof) * error


def _noise(rows: Sequence[Evidence]) -> list[Noise | None]:
    """The noise of each row's pairs; None where there is none to test with."""
    found: list[Noise | None] = [None] * len(rows)
    for metric in dict.fromkeys(row.metric for row in rows):
        places = [
            i
            for i, row in enumerate(rows)
            if row.metric == metric and not row.exact and len(row.logs) > 1
        ]
        own = [_variance(rows[i].logs) for i in places]
        for i, noise in zip(places, pooled(own), strict=True):
            found[i] = noise
    return found


def _variance(logs: Sequence[float]) -> Variance:
    centre = math.fsum(logs) / len(logs)
    dof = len(logs) - 1
    return Variance(math.fsum((v - centre) ** 2 for v in logs) / dof, dof)


def _p(row: Evidence, noise: Noise | None, sign: int, rules: Rules) -> float:
    """P-value of a change in one direction, over this look and the ones before.

    A change that does not clear the margin is no candidate, and says so before the family is
    judged. The smallest p over looks, each divided by its share, is a p-value again (Bonferroni).
    """
    assert noise is not None
    spent = row.spent[0] if sign < 0 else row.spent[1]
    if not _clears(row, sign, rules):
        return spent
    n = len(row.logs)
    p = noise.upper_tail(sign * math.fsum(row.logs) / n, n)
    return min(spent, p / row.share, 1.0)


def _clears(row: Evidence, sign: int, rules: Rules) -> bool:
    """Whether the interval of a row's own pairs lies beyond the margin on that side."""
    over = mean(row.logs, 1 - 2 * rules.tail(row.share))
    return (over.low if sign > 0 else -over.high) > rules.least


def _ruling(
    row: Evidence,
    noise: Noise,
    fallen: bool,
    risen: bool,
    spent: tuple[float, float],
    family: int,
    rules: Rules,
) -> Ruling:
    n, sd = len(row.logs), math.sqrt(noise.usual.value)
    over = mean(row.logs, 1 - 2 * rules.tail(row.share))
    verdict: VerdictName = "unknown"
    # An earlier look may have found what later pairs took back.
    if fallen and _clears(row, -1, rules):
        verdict = "regressed"
    elif risen and _clears(row, +1, rules):
        verdict = "improved"
    elif -rules.least <= over.low and over.high <= rules.least:
        verdict = "same"
    prior = noise.usual.dof - (n - 1)
    needed = (
        smallest_change(sd, n, prior, family, rules, row.share, noise.alone)
        if sd > 0
        else rules.least
    )
    return Ruling(
        verdict,
        math.exp(over.value),
        math.exp(over.low),
        math.exp(over.high),
        n,
        spent[0] if over.value < 0 else spent[1],
        math.expm1(needed) if needed < 10 else None,
        sd,
        prior,
        noise.alone,
        spent,
    )


def _without_noise(row: Evidence, rules: Rules) -> Ruling:
    """A row that repeats to the digit needs no test; one pair alone allows none."""
    value = math.fsum(row.logs) / len(row.logs)
    ratio = math.exp(value)
    if not row.exact:
        return Ruling("unknown", ratio, None, None, len(row.logs))
    verdict: VerdictName = "same"
    if abs(value) > rules.least:
        verdict = "regressed" if value < 0 else "improved"
    return Ruling(verdict, ratio, ratio, ratio, len(row.logs))
