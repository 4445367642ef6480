"""Looking again and again: the shares of the error, and what a nothing comes to over many looks."""

import math
import random
from itertools import islice

import pytest

from harness.analysis.judge import Rules, Ruling, judge
from harness.analysis.looks import FIRST, Row, judge_looks, judge_once, schedule, share


def _row(source: random.Random, n: int, sd: float = 0.02, change: float = 0.0) -> Row:
    logs = tuple(source.gauss(math.log1p(change), sd) for _ in range(n))
    return Row("tpot", logs, tuple(range(n)))


def test_shares_add_up_to_the_whole_and_looks_move_apart() -> None:
    assert math.fsum(share(k) for k in range(1, 100)) == pytest.approx(0.99)
    assert list(islice(schedule(), 5)) == [6, 9, 14, 21, 32]
    assert list(islice(schedule(2), 4)) == [2, 3, 5, 8]


def _changed(rulings: list[Ruling]) -> bool:
    return any(r.verdict in ("regressed", "improved") for r in rulings)


def test_looking_until_something_shows_finds_no_more_than_it_may() -> None:
    """Two directions at q = 0.05, so 10 % at most over 8 looks; without shares it is far more."""
    source, rules = random.Random(8), Rules(q=0.05, margin=0.0)
    with_shares = without = 0
    for _ in range(150):
        row = _row(source, 5 * 8)
        stops = [5 * k for k in range(1, 9)]
        prefixes = [Row("tpot", row.logs[:n], row.rounds[:n]) for n in islice(schedule(5), 6)]
        with_shares += any(_changed(judge_looks([p], 5, rules)) for p in prefixes)
        without += any(
            _changed(judge_once([Row("tpot", row.logs[:n], row.rounds[:n])], rules)) for n in stops
        )
    assert with_shares <= 20
    assert without > 25


def test_one_look_at_a_fixed_number_of_rounds_costs_nothing() -> None:
    row = _row(random.Random(1), 12)
    (fixed,) = judge_once([row])
    assert fixed.low is not None
    (first,) = judge_looks([Row("tpot", row.logs[:FIRST], row.rounds[:FIRST])], FIRST)
    (same,) = judge_once([Row("tpot", row.logs[:FIRST], row.rounds[:FIRST])])
    assert first.low is not None
    assert same.low is not None
    assert first.low < same.low


def test_a_row_that_stopped_keeps_its_verdict_while_others_go_on() -> None:
    """Its interval was taken at its own look; later looks at others do not widen it."""
    source = random.Random(3)
    quiet = [_row(source, FIRST, 0.001) for _ in range(20)]
    loud = [_row(source, 32, 0.05) for _ in range(5)]
    early = judge_looks([Row("tpot", r.logs[:FIRST], r.rounds[:FIRST]) for r in [*quiet, *loud]], 6)
    late = judge_looks([*quiet, *loud], 6)
    assert {r.verdict for r in early[:20]} == {"same"}
    assert [(r.verdict, r.low, r.high) for r in late[:20]] == [
        (r.verdict, r.low, r.high) for r in early[:20]
    ]


def test_a_change_that_shows_late_is_found_late() -> None:
    source = random.Random(4)
    row = _row(source, 48, 0.05, -0.05)
    verdicts = [
        judge_looks([Row("tpot", row.logs[:n], row.rounds[:n])], FIRST)[0].verdict
        for n in islice(schedule(), 6)
    ]
    assert verdicts[0] == "unknown"
    assert verdicts[-1] == "regressed"


def test_what_later_pairs_take_back_is_no_regression() -> None:
    """Six pairs 20 % down, then twenty-six that are not: the discovery stands, the interval not."""
    source = random.Random(5)
    down = tuple(source.gauss(-0.2, 0.01) for _ in range(6))
    after = tuple(source.gauss(0.05, 0.01) for _ in range(26))
    assert judge_looks([Row("tpot", down, tuple(range(6)))], 6)[0].verdict == "regressed"
    both = Row("tpot", down + after, tuple(range(32)))
    assert judge_looks([both], 6)[0].verdict == "unknown"


def test_rounds_that_are_missing_are_no_pairs_of_later_looks() -> None:
    row = Row("tpot", (-0.1, -0.1, -0.11, -0.1), (0, 2, 7, 8))
    assert row.until(6) == (-0.1, -0.1)
    assert judge_looks([row], 6)[0].n == 4
    assert judge([]) == []
    assert judge_looks([], 6) == []
