import pytest

from harness.errors import UsageError
from harness.sweep.budget import Expectation, first_round, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1h", 3600), ("1.5h", 5400), (" 2M ", 120)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "10", "m", "-5m", "0s", "ten minutes", "1e3s", "5 m\n\n5", "\u0661s"]
)
def test_wrong_durations_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="a duration is a number and s, m or h"):
        parse_duration(text)


def test_first_round_takes_the_cheapest() -> None:
    assert first_round([5.0, 1.0, 3.0, 2.0], 6.0) == {1, 2, 3}
    assert first_round([5.0, 1.0, 3.0, 2.0], 11.0) == {0, 1, 2, 3}
    assert first_round([5.0, 1.0], 0.5) == frozenset()
    assert first_round([], 10.0) == frozenset()


def test_expectation_is_the_estimate_at_first() -> None:
    assert Expectation({"a": 10.0}).seconds("a") == 10.0


def test_expectation_of_a_measured_case_is_its_longest_run() -> None:
    expectation = Expectation({"a": 10.0})
    for seconds in (4.0, 6.0, 5.0):
        expectation.observe("a", seconds)
    assert expectation.seconds("a") == 6.0


def test_expectation_of_others_is_scaled_by_what_was_seen() -> None:
    expectation = Expectation({"a": 10.0, "b": 10.0, "c": 10.0, "d": 8.0})
    for case, seconds in (("a", 20.0), ("b", 30.0), ("c", 400.0)):
        expectation.observe(case, seconds)
    assert expectation.seconds("d") == 24.0
