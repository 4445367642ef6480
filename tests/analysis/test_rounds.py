"""Forecasts of rounds, held to what the judge finds after that many."""

import math
import random

from harness.analysis.judge import Evidence, Rules, judge
from harness.analysis.rounds import MOST, noise, rounds_for


def test_more_noise_smaller_changes_and_larger_families_need_more_rounds() -> None:
    needed = [rounds_for(change, 0.014, 8, 100) for change in (0.02, 0.03, 0.05, 0.1)]
    assert None not in needed
    assert needed == sorted((n or 0 for n in needed), reverse=True)
    for more in (rounds_for(0.03, 0.03, 8, 100), rounds_for(0.03, 0.014, 8, 1000)):
        assert more is not None
        assert more > (needed[1] or 0)


def test_what_is_within_the_margin_is_never_found() -> None:
    assert rounds_for(0.01, 0.001, 0, 1) is None
    assert rounds_for(0.011, 5.0, 0, 1) is None
    assert rounds_for(0.005, 0.001, 0, 1, Rules(margin=0.001)) is not None
    assert MOST > 1000


def test_after_that_many_rounds_the_change_is_found_and_after_half_of_them_not() -> None:
    source = random.Random(11)
    needed = rounds_for(0.03, 0.02, 0, 1)
    assert needed is not None

    def share(n: int) -> float:
        found = 0
        for _ in range(120):
            logs = tuple(source.gauss(-math.log1p(0.03), 0.02) for _ in range(n))
            found += judge([Evidence("tpot", logs)])[0].verdict == "regressed"
        return found / 120

    assert share(needed) >= 0.88
    assert share(needed // 2) <= 0.7


def test_noise_is_told_by_metric_and_rows_without_noise_do_not_count() -> None:
    source = random.Random(12)
    rows = [
        *(Evidence("tpot", tuple(source.gauss(0, 0.01) for _ in range(9))) for _ in range(20)),
        *(Evidence("ttft", tuple(source.gauss(0, 0.05) for _ in range(9))) for _ in range(20)),
        Evidence("state_bytes", (0.0, 0.0), exact=True),
    ]
    rulings = judge(rows)
    told = noise([(row.metric, ruling) for row, ruling in zip(rows, rulings, strict=True)])
    assert [n.metric for n in told] == ["tpot", "ttft"]
    usual, worst = told[0].usual, told[0].worst
    assert 0.008 < (usual.sd or 0) <= (worst.sd or 0) < 0.015
    assert 0.04 < (told[1].usual.sd or 0) < 0.06
