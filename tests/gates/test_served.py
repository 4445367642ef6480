"""Which requests of a serve run are judged."""

from __future__ import annotations

from harness.engine.request import Request
from harness.gates.served import LONGEST, choose_due
from harness.measure.serve import Due


def _due(*lengths: int) -> list[Due]:
    return [Due(0, Request(i, (1,) * (n - 4), 4)) for i, n in enumerate(lengths)]


def test_the_longest_request_is_judged_in_every_round() -> None:
    """Only requests within the budget were, so that a fault past 768 tokens passed in any trace."""
    due = _due(30, 1500, 40, 50, LONGEST + 1)
    for seed in "abcdef":
        chosen = choose_due(due, seed, budget=100)
        assert chosen[0].request.id == 1
        assert {each.request.id for each in chosen[1:]} <= {0, 2, 3}
        assert sum(len(each.request.prompt) + 4 for each in chosen[1:]) <= 100


def test_others_change_with_the_seed() -> None:
    due = _due(*[60] * 20, 200)
    rounds = {tuple(each.request.id for each in choose_due(due, str(i), 130)) for i in range(9)}
    assert len(rounds) > 3
    assert all(len(ids) == 3 for ids in rounds)


def test_where_all_are_too_long_the_shortest_is_judged() -> None:
    chosen = choose_due(_due(LONGEST + 9, LONGEST + 3), "a", budget=100)
    assert [each.request.id for each in chosen] == [1]
