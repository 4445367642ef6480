"""Medians, order-statistic bounds and percentiles on samples with a known answer."""

from __future__ import annotations

import random

import pytest

from harness.measure.interval import grouped_median, lower_rank, median, percentile


def test_a_median_of_few_has_no_bounds() -> None:
    assert median([3, 1, 2]) == median([1, 2, 3])
    found = median([5, 1, 2, 3, 4])
    assert (found.value, found.low, found.high, found.precision) == (3, None, None, None)


@pytest.mark.parametrize(
    ("n", "rank"), [(6, 1), (8, 1), (9, 2), (10, 2), (20, 6), (50, 18), (100, 40)]
)
def test_ranks_are_those_of_the_published_table(n: int, rank: int) -> None:
    """Sign-test ranks for 95 %, as in any table of them (Conover, table A3)."""
    assert lower_rank(n) == rank


def test_ranks_do_not_jump_where_the_sum_becomes_an_approximation() -> None:
    assert 0 <= lower_rank(1001) - lower_rank(1000) <= 1


def test_the_interval_covers_the_median_as_often_as_it_says() -> None:
    """2,000 draws of 15 skewed values: the true median is inside at least 95 % of the time."""
    draw = random.Random(0)
    inside = 0
    for _ in range(2000):
        found = median([draw.expovariate(1.0) for _ in range(15)])
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= 0.693147 <= found.high
    assert inside / 2000 >= 0.94


def test_a_stray_value_moves_neither_median_nor_bounds_much() -> None:
    found = median([10.0] * 19 + [1e9])
    assert (found.value, found.low, found.high, found.precision) == (10, 10, 10, 0)


def test_groups_bound_by_their_medians_so_a_trend_inside_does_not_count() -> None:
    """Every repetition runs from 1 to 9: the median is 5 in each, and that is certain."""
    found = grouped_median([list(range(1, 10))] * 6, pool=True)
    assert (found.value, found.low, found.high) == (5, 5, 5)
    assert grouped_median([list(range(1, 10))] * 5, pool=True).low != 5
    assert grouped_median([list(range(1, 10))] * 5, pool=False).low is None


@pytest.mark.parametrize(("share", "value"), [(0.5, 5), (0.9, 9), (0.99, 10)])
def test_percentiles_of_equal_weights(share: float, value: float) -> None:
    assert percentile([(float(v), 1.0) for v in range(10, 0, -1)], share) == value


def test_a_percentile_goes_by_weight() -> None:
    assert percentile([(1.0, 9.0), (100.0, 1.0)], 0.9) == 1
    assert percentile([(1.0, 9.0), (100.0, 1.0)], 0.91) == 100
