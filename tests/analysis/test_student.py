"""Student's t against closed forms and another library's figures, tails included."""

import math

import pytest

from harness.analysis.student import beta_quantile, mixed_quantile, quantile, upper_tail

# scipy 1.17.1, stats.t.sf(t, dof).
SCIPY = (
    (1.5, 0.5, 0.34028355533497),
    (1.5, 40, 0.0014898121954656225),
    (3.7, 2, 0.06090860095261699),
    (3.7, 40, 2.5693124910707486e-06),
    (9, 8, 1.1067408404700078e-05),
    (111.3, 2, 0.02396787687930586),
    (111.3, 8, 6.457256863266157e-13),
    (111.3, 40, 3.4984805326519328e-68),
    (200000, 2, 0.022750806836863445),
    (200000, 8, 6.253880178430158e-16),
)


def test_one_and_two_degrees_are_the_closed_forms() -> None:
    for t in (0.1, 1.0, 3.0, 40.0):
        assert upper_tail(t, 1) == pytest.approx(0.5 - math.atan(t) / math.pi)
        assert upper_tail(t, 2) == pytest.approx(0.5 - t / math.sqrt(2 + t * t) / 2)


def test_tails_are_right_to_nine_digits_however_small() -> None:
    for dof, t, tail in SCIPY:
        assert upper_tail(t, dof) == pytest.approx(tail, rel=1e-9), (dof, t)
        assert upper_tail(-t, dof) == pytest.approx(1 - tail, rel=1e-9), (dof, t)


def test_very_many_degrees_are_the_normal_distribution() -> None:
    assert upper_tail(1.959964, 1e7) == pytest.approx(0.025, rel=1e-5)
    assert upper_tail(1.959964, 9e5) == pytest.approx(0.025, rel=1e-5)


def test_a_quantile_has_its_tail() -> None:
    for dof in (1, 2.5, 19, 400, 1e7):
        for tail in (0.5, 0.025, 1e-9):
            assert upper_tail(quantile(tail, dof), dof) == pytest.approx(tail, rel=1e-9)


def test_a_quantile_of_two_distributions_lies_between_theirs() -> None:
    t = mixed_quantile(1e-4, 40, 2, 0.1)
    assert 0.9 * upper_tail(t, 40) + 0.1 * upper_tail(t, 2) == pytest.approx(1e-4, rel=1e-9)
    assert quantile(1e-4, 40) < t < quantile(1e-4, 2)
    assert mixed_quantile(1e-4, 40, 2, 0.0) == quantile(1e-4, 40)


def test_quantiles_of_the_beta_distribution_in_closed_form() -> None:
    """Beta(a, 1) has x**a below x, Beta(2, 2) is symmetric."""
    assert beta_quantile(0.25, 3, 1) == pytest.approx(0.25 ** (1 / 3))
    assert beta_quantile(0.25, 0.5, 1) == pytest.approx(0.0625)
    assert beta_quantile(0.5, 2, 2) == pytest.approx(0.5)
