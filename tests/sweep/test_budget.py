import pytest

from harness.errors import UsageError
from harness.sweep.budget import Expectation, choose, parse_duration
from harness.sweep.order import Turn, turns


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


def points(count: int) -> list[str]:
    """Cases that share no point."""
    return [str(i) for i in range(count)]


def take(costs: dict[int, float], rounds: int, left_s: float, seed: int = 1) -> list[Turn]:
    """The turns that a budget allows, in the order in which they are taken."""
    waiting, taken = turns(points(len(costs)), rounds, seed), []
    while (place := choose(waiting, lambda turn: costs[turn.case], left_s)) >= 0:
        taken.append(waiting.pop(place))
        left_s -= costs[taken[-1].case]
    return taken


COSTS = {0: 5.0, 1: 1.0, 2: 3.0, 3: 2.0}


def test_ample_budget_changes_nothing() -> None:
    assert take(COSTS, 3, 33.0) == turns(points(4), 3, seed=1)


def test_tight_budget_takes_the_cheapest_of_the_first_round() -> None:
    assert [(turn.case, turn.round) for turn in take(COSTS, 3, 6.0)] == [(1, 0), (3, 0), (2, 0)]


def test_first_round_is_random_where_it_fits_and_the_second_cheapest_first() -> None:
    taken = take(COSTS, 2, 14.0)
    assert taken[:4] == turns(points(4), 1, seed=1)
    assert [(turn.case, turn.round) for turn in taken[4:]] == [(1, 1), (3, 1)]


def test_what_is_left_goes_to_later_rounds_when_a_case_does_not_fit() -> None:
    taken = take({0: 100.0, 1: 1.0}, 3, 10.0)
    assert [(turn.case, turn.round) for turn in taken] == [(1, 0), (1, 1), (1, 2)]


def test_budget_is_never_exceeded() -> None:
    for left_s in range(40):
        assert sum(COSTS[turn.case] for turn in take(COSTS, 3, left_s)) <= left_s


def test_no_turn_fits() -> None:
    assert take(COSTS, 3, 0.5) == []
    assert take({}, 3, 10.0) == []


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
