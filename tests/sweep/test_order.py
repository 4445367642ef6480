from collections import Counter

from harness.sweep.order import turns


def points(count: int) -> list[str]:
    """Cases that share no point."""
    return [str(i) for i in range(count)]


def test_each_round_takes_every_case_once() -> None:
    planned = turns(points(20), 3, seed=7)
    assert [turn.order_slot for turn in planned] == list(range(60))
    for number in range(3):
        cases = [turn.case for turn in planned if turn.round == number]
        assert sorted(cases) == list(range(20))
    assert [turn.round for turn in planned] == [0] * 20 + [1] * 20 + [2] * 20


def test_order_follows_the_seed_alone() -> None:
    assert turns(points(20), 2, seed=7) == turns(points(20), 2, seed=7)
    assert turns(points(20), 2, seed=7) != turns(points(20), 2, seed=8)
    # Written down: the same on every machine and every version of Python.
    assert [turn.case for turn in turns(points(6), 2, seed=0)] == [
        2,
        0,
        4,
        5,
        1,
        3,
        1,
        2,
        5,
        3,
        0,
        4,
    ]


def test_rounds_have_orders_of_their_own() -> None:
    planned = turns(points(20), 2, seed=7)
    assert [t.case for t in planned[:20]] != [t.case for t in planned[20:]]


def test_no_case_is_favoured() -> None:
    """Over many seeds each case is first about equally often (1,000 of 4,000; 5 sigma is 137)."""
    first = Counter(turns(points(4), 1, seed)[0].case for seed in range(4000))
    assert all(abs(first[case] - 1000) < 137 for case in range(4))


def test_nothing_to_do() -> None:
    assert turns(points(0), 3, seed=1) == []


def test_stacks_of_a_point_run_side_by_side_in_random_order() -> None:
    """Sides of a pair were eight runs apart on the median, so that pairing cancelled nothing."""
    shared = ["a", "b", "a", "c", "b", "a"]
    for number in range(20):
        order = [shared[turn.case] for turn in turns(shared, 1, seed=number)]
        assert order in [
            [*"aaabbc"],
            [*"aaacbb"],
            [*"bbaaac"],
            [*"bbcaaa"],
            [*"caaabb"],
            [*"cbbaaa"],
        ]
    firsts = {
        next(t.case for t in turns(shared, 1, seed) if shared[t.case] == "a") for seed in range(40)
    }
    assert firsts == {0, 2, 5}
