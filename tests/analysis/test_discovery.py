"""The step-up procedure of Benjamini and Hochberg, on its own example and on made-up families."""

import random

from harness.analysis.discovery import discoveries

# Benjamini and Hochberg 1995, section 4.1: fifteen p-values, of which four are discoveries at 0.05.
PAPER = (
    0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
    0.6528, 0.7590, 1.0000,
)  # fmt: skip


def test_the_papers_own_example() -> None:
    assert discoveries(PAPER, 0.05) == [True] * 4 + [False] * 11


def test_places_are_kept_whatever_the_order() -> None:
    shuffled = list(PAPER)
    random.Random(1).shuffle(shuffled)
    assert discoveries(shuffled, 0.05) == [p <= 0.0095 for p in shuffled]


def test_a_large_p_is_carried_by_the_ones_after_it() -> None:
    """0.04 alone fails 0.05/2; with 0.045 behind it both pass: it is a step up."""
    assert discoveries([0.04, 0.9], 0.05) == [False, False]
    assert discoveries([0.04, 0.045], 0.05) == [True, True]


def test_an_empty_family_and_a_family_of_one() -> None:
    assert discoveries([]) == []
    assert discoveries([0.01], 0.01) == [True]
    assert discoveries([0.0101], 0.01) == [False]


def test_families_of_nothing_are_flagged_as_often_as_q() -> None:
    """4,000 families of 50 true nothings: one discovery or more in 5 % of them, +-0.35 %."""
    source = random.Random(7)
    flagged = sum(any(discoveries([source.random() for _ in range(50)], 0.05)) for _ in range(4000))
    assert 0.04 <= flagged / 4000 <= 0.06
