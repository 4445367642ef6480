"""Intervals on samples with known answers, and their coverage by a seeded simulation."""

import math
import random

import pytest

from harness.analysis.intervals import fit_line, geometric_mean, mean, t_multiplier


@pytest.mark.parametrize(
    ("dof", "table"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (9, 2.262), (30, 2.042)],
)
def test_t_multiplier_is_the_printed_table(dof: int, table: float) -> None:
    assert t_multiplier(dof) == pytest.approx(table, abs=5e-4)


def test_mean_of_a_small_sample_by_hand() -> None:
    """1, 2, 3: mean 2, standard error 1/sqrt(3), t(2) = 4.3027."""
    interval = mean([1.0, 2.0, 3.0])
    assert interval.value == 2.0
    assert interval.high - 2.0 == pytest.approx(4.30265 / math.sqrt(3), rel=1e-4)
    assert 2.0 - interval.low == pytest.approx(interval.high - 2.0)


def test_geometric_mean_of_equal_counts_is_that_count_exactly() -> None:
    interval = geometric_mean([786432.0] * 3)
    assert (interval.value, interval.low, interval.high) == (786432.0, 786432.0, 786432.0)


def test_geometric_mean_is_unmoved_by_the_unit() -> None:
    ns = geometric_mean([1.1e6, 1.3e6, 1.2e6])
    ms = geometric_mean([1.1, 1.3, 1.2])
    assert ns.low / ms.low == pytest.approx(1e6)
    assert ns.high / ns.value == pytest.approx(ns.value / ns.low)


@pytest.mark.parametrize("n", [2, 3, 10])
def test_geometric_mean_covers_the_true_value_as_often_as_it_says(n: int) -> None:
    """4,000 samples of multiplicative noise: 95 % coverage has a standard error of 0.34 %."""
    noise = random.Random(7)
    hits = 0
    for _ in range(4000):
        interval = geometric_mean([math.exp(noise.gauss(0, 0.02)) for _ in range(n)])
        hits += interval.low <= 1 <= interval.high
    assert 0.935 <= hits / 4000 <= 0.965


def test_fit_line_finds_an_exact_line_and_no_doubt() -> None:
    line = fit_line([1, 2, 3, 4], [5, 7, 9, 11])
    assert (line.intercept, line.slope) == pytest.approx((3, 2))
    assert line.slope_low == pytest.approx(2)
    assert line.slope_high == pytest.approx(2)


def test_fit_line_of_a_textbook_sample() -> None:
    """By hand: Sxx = 10, Sxy = 6, residual variance 2.4/3, t(3) = 3.1824."""
    line = fit_line([1, 2, 3, 4, 5], [2, 4, 5, 4, 5])
    assert line.slope == pytest.approx(0.6)
    assert line.slope_high is not None
    assert line.slope_high - 0.6 == pytest.approx(3.1824 * math.sqrt(0.8 / 10), rel=1e-4)


def test_fit_line_through_two_points_has_no_interval() -> None:
    line = fit_line([128, 1024], [1.0, 8.0])
    assert line.slope == pytest.approx(7 / 896)
    assert line.slope_low is None
    assert line.slope_high is None


def test_fit_line_covers_the_true_slope_under_multiplicative_noise() -> None:
    """Three processes at two lengths, 1 % noise, an eightfold rise: what a sweep gives."""
    noise = random.Random(11)
    x = [128.0] * 3 + [1024.0] * 3
    hits = unweighted = 0
    for _ in range(3000):
        y = [a * math.exp(noise.gauss(0, 0.01)) for a in x]
        scale = [sum(y[:3]) / 3] * 3 + [sum(y[3:]) / 3] * 3
        line = fit_line(x, y, scale)
        assert line.slope_low is not None
        assert line.slope_high is not None
        hits += line.slope_low <= 1 <= line.slope_high
        plain = fit_line(x, y)
        assert plain.slope_low is not None
        assert plain.slope_high is not None
        unweighted += plain.slope_low <= 1 <= plain.slope_high
    assert 0.935 <= hits / 3000 <= 0.965
    assert unweighted < hits
