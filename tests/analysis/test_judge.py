"""Verdicts on made-up pairs whose truth is known: coverage, false alarms, direction, looks."""

import math
import random
from collections import Counter
from collections.abc import Callable
from statistics import stdev

import pytest

from harness.analysis.discovery import discoveries
from harness.analysis.intervals import mean
from harness.analysis.judge import Evidence, Rules, judge
from harness.analysis.pooling import Variance, pooled
from harness.analysis.student import upper_tail

# logarithms of `n` pairs of one row
Draw = Callable[[random.Random, int], list[float]]


def _normal(sd: float, change: float = 0.0) -> Draw:
    return lambda source, n: [source.gauss(math.log1p(change), sd) for _ in range(n)]


def _two_states(source: random.Random, n: int) -> list[float]:
    """Each process lands in one of two states 3 % apart, and is steady there."""
    state = (0.0, 0.03)
    return [source.choice(state) - source.choice(state) + source.gauss(0, 0.001) for _ in range(n)]


def _family(source: random.Random, n: int, *parts: tuple[int, Draw]) -> list[Evidence]:
    return [Evidence("tpot", tuple(draw(source, n))) for count, draw in parts for _ in range(count)]


@pytest.mark.parametrize("n", [5, 10, 20])
def test_intervals_cover_the_true_ratio(n: int) -> None:
    """1,000 cases with a known ratio each: 95 %, with a standard error of 0.7 %."""
    source = random.Random(n)
    truths = [source.uniform(0.5, 2) for _ in range(1000)]
    rows = [
        Evidence("tpot", tuple(source.gauss(math.log(t), source.uniform(0.005, 0.03))
                               for _ in range(n)))
        for t in truths
    ]  # fmt: skip
    found = judge(rows)
    hits = 0
    for ruling, truth in zip(found, truths, strict=True):
        assert ruling.low is not None
        assert ruling.high is not None
        hits += ruling.low <= truth <= ruling.high
    assert 0.93 <= hits / 1000 <= 0.97


def test_the_five_pairs_of_a_clear_change_are_enough_in_a_large_grid() -> None:
    source = random.Random(1)
    rows = _family(
        source, 5, (190, _normal(0.01)), (5, _normal(0.01, -0.1)), (5, _normal(0.01, 0.1))
    )
    counts = Counter(ruling.verdict for ruling in judge(rows)[190:195])
    assert counts == {"regressed": 5}
    assert Counter(ruling.verdict for ruling in judge(rows)[195:]) == {"improved": 5}
    assert {r.verdict for r in judge(rows)[:190]} <= {"same", "unknown"}


@pytest.mark.parametrize("draw", [_normal(0.014), _two_states], ids=["normal", "two states"])
def test_nothing_is_called_a_change_where_nothing_changed(draw: Draw) -> None:
    """60 comparisons of 60 rows of nothing, five pairs each: one alarm is expected, of q twice."""
    source = random.Random(2)
    alarms = 0
    for _ in range(60):
        found = judge(_family(source, 5, (60, draw)))
        alarms += any(r.verdict in ("regressed", "improved") for r in found)
    assert alarms <= 3


def test_without_pooling_luck_among_two_states_would_alarm() -> None:
    """The twin that tests each row by its own five pairs: they agree by luck in 1 of 1,000."""
    source, q = random.Random(2), 0.01

    def alarm() -> bool:
        p = []
        for row in _family(source, 5, (60, _two_states)):
            over = mean(row.logs)
            error = (over.high - over.value) / 2.776
            p.append(upper_tail(abs(over.value) / error, 4))
        return any(discoveries(p, q))

    assert sum(alarm() for _ in range(60)) > 5


def _with_noisy_ones(source: random.Random) -> list[Evidence]:
    return _family(source, 3, (14, _normal(0.014)), (2, _normal(0.07)))


def test_two_noisy_cases_among_quiet_ones_do_not_alarm() -> None:
    """Three pairs, sixteen rows: each direction may alarm in 1 % of comparisons, both in 2 %."""
    source = random.Random(7)
    changed = ("regressed", "improved")
    alarms = sum(
        any(r.verdict in changed for r in judge(_with_noisy_ones(source))) for _ in range(250)
    )
    assert alarms <= 9


def test_noise_drawn_towards_that_of_the_others_alone_would_alarm() -> None:
    """The twin that takes all cases for alike, as the margin's interval alone does not stop it."""
    source = random.Random(7)

    def alarm() -> bool:
        rows = _with_noisy_ones(source)
        own = [Variance(stdev(row.logs) ** 2, 2) for row in rows]
        p = []
        for row, noise in zip(rows, pooled(own), strict=True):
            over = mean(row.logs)
            clear = max(over.low, -over.high) > math.log1p(0.01)
            error = math.sqrt(noise.usual.value / 3)
            p.append(upper_tail(abs(over.value) / error, noise.usual.dof) if clear else 1.0)
        return any(discoveries(p))

    assert sum(alarm() for _ in range(250)) > 9


def test_many_improvements_do_not_make_a_regression_easier_to_claim() -> None:
    """folo-rs/folo#482: directions are families of their own. In one family of both, half of all
    rows being real, nothings would pass at p < q / 2."""
    source = random.Random(3)
    false = 0
    for _ in range(30):
        rows = _family(source, 6, (50, _normal(0.02)), (50, _normal(0.02, 0.3)))
        false += sum(r.verdict == "regressed" for r in judge(rows)[:50])
    assert false <= 2


def test_a_change_within_the_margin_is_the_same_however_certain() -> None:
    """lance0/rustbgpd#566: an interval must exclude zero and the margin."""
    rows = _family(random.Random(4), 30, (10, _normal(0.002, -0.005)))
    assert {r.verdict for r in judge(rows)} == {"same"}
    assert all(r.high is not None and r.high < 1 for r in judge(rows))
    assert {r.verdict for r in judge(rows, Rules(margin=0.001))} == {"regressed"}


def test_a_wide_interval_is_unknown_and_says_what_it_would_have_shown() -> None:
    rows = _family(random.Random(5), 5, (20, _normal(0.05)))
    for ruling in judge(rows):
        assert ruling.verdict == "unknown"
        assert ruling.smallest is not None
        assert 0.05 < ruling.smallest < 0.4


def test_the_smallest_change_is_found_as_often_as_said() -> None:
    """Planted at the size named, one row in 40 is found 19 times in 20; smaller ones are not."""
    source, found = random.Random(6), Counter[str]()
    for _ in range(40):
        quiet = _family(source, 8, (39, _normal(0.01)))
        smallest = judge([*quiet, *_family(source, 8, (1, _normal(0.01)))])[0].smallest
        assert smallest is not None
        for name, share in (("whole", 1.0), ("half", 0.5)):
            change = -smallest * share / (1 + smallest * share)
            planted = _family(source, 8, (1, _normal(0.01, change)))
            found[name] += judge([*quiet, *planted])[-1].verdict == "regressed"
    assert found["whole"] >= 34
    assert found["half"] <= 28


def test_counts_that_repeat_need_no_noise() -> None:
    less, more = math.log(0.5), math.log(1.002)
    rows = [
        Evidence("state_bytes", (less, less), exact=True),
        Evidence("state_bytes", (more, more), exact=True),
    ]
    worse, same = judge(rows)
    assert (worse.verdict, worse.ratio, worse.low, worse.high) == ("regressed", 0.5, 0.5, 0.5)
    assert same.verdict == "same"


def test_times_that_agree_to_the_digit_prove_no_more_than_their_signs() -> None:
    few, many = (Evidence("peak_bytes", (math.log(0.5),) * n) for n in (3, 10))
    assert judge([few])[0].verdict == "unknown"
    assert judge([many])[0].verdict == "regressed"


def test_one_pair_is_a_ratio_and_no_verdict() -> None:
    (found,) = judge([Evidence("tpot", (math.log(0.5),))])
    assert (found.verdict, found.ratio, found.low, found.n) == ("unknown", 0.5, None, 1)
    assert judge([]) == []
