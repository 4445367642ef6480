"""Numbers for people: units that fit, digits that carry, ASCII only."""

import pytest

from harness.analysis.ratios import Ratio
from harness.analysis.results import Estimate
from harness.metrics import METRICS
from harness.report import units


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (85, "85.0 ns"),
        (1_830_000, "1.83 ms"),
        (999_600, "1.00 ms"),
        (999_400, "999 us"),
        (12_345, "12.3 us"),
        (12_400_000_000, "12.4 s"),
        (7_654_000_000_000, "7,654 s"),
        (-235_000, "-235 us"),
    ],
)
def test_duration(ns: float, text: str) -> None:
    assert units.duration(ns) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (512, "512 B"), (4_194_304, "4.19 MB"), (25_000_000_000, "25.0 GB")],
)
def test_size(number: float, text: str) -> None:
    assert units.size(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(9.996, "10.0"), (99.96, "100"), (0.0123, "0.0123"), (546.2, "546"), (12345.6, "12,346")],
)
def test_digits(number: float, text: str) -> None:
    assert units.digits(number) == text


def _ratio(value: float, low: float | None, high: float | None) -> Ratio:
    return Ratio(value, low, high, 3)


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (_ratio(1.83, 1.79, 1.87), "1.83x [1.79, 1.87]"),
        (_ratio(1.0391, 1.0342, 1.0448), "1.039x [1.034, 1.045]"),
        (_ratio(0.06523, 0.0644, 0.0661), "0.0652x [0.0644, 0.0661]"),
        (_ratio(0.066, 0.062, 0.070), "0.066x [0.062, 0.070]"),
        (_ratio(91.24, 90.6, 91.9), "91.2x [90.6, 91.9]"),
        (_ratio(1234.5, 1200, 1270), "1,234x [1,200, 1,270]"),
        (_ratio(1.2, 0.31, 4.65), "1.20x [0.31, 4.65]"),
        (_ratio(4.0, 4.0, 4.0), "4.00x"),
        (_ratio(2.0, None, None), "2.00x"),
        (Ratio(None, None, None, 0, "no"), "-"),
    ],
)
def test_times(ratio: Ratio, text: str) -> None:
    assert units.times(ratio) == text


def test_spread_is_the_wider_half() -> None:
    assert units.spread(Estimate(100.0, None, 3, 98.0, 101.0)) == "+-2.0%"
    assert units.spread(Estimate(100.0, None, 2, 30.0, 330.0)) == "+-230%"
    assert units.spread(Estimate(100.0, None, 3, 100.0, 100.0)) == ""
    assert units.spread(Estimate(100.0, None, 1, None, None)) == ""
    assert units.spread(Estimate(None, "why", 0, None, None)) == ""


def test_a_difference_and_its_bounds_share_a_unit() -> None:
    assert units.duration_interval(235_000, 206_000, 265_000) == "+235 us [206, 265]"
    assert units.duration_interval(-208, -60_843, 60_428) == "-0.208 us [-60.8, 60.4]"
    assert units.duration_interval(5.0, None, None) == "+5.00 ns"


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_has_a_way_to_be_written(metric: str) -> None:
    text = units.value(metric, 123456.0)
    assert text.isascii()
    assert text[0].isdigit()
