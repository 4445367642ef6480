"""Pooled noise: the what it finds in made-up variances."""

import math
import random

from harness.analysis.pooling import LEAST_CASES, Variance, pooled


def _chi2(random_: random.Random, dof: int) -> float:
    return math.fsum(random_.gauss(0, 1) ** 2 for _ in range(dof)) / dof


def test_equal_noise_is_pooled_almost_wholly() -> None:
    source = random.Random(1)
    own = [Variance(_chi2(source, 4), 4) for _ in range(200)]
    found = pooled(own)
    assert max(v.value for v in own) / min(v.value for v in own) > 50
    assert max(v.value for v in found) / min(v.value for v in found) < 1.6
    assert all(v.dof > 40 for v in found)


def test_the_prior_of_made_up_variances_is_found() -> None:
    """Scaled inverse chi-squared with 6 degrees of freedom: pooling adds about 6, rather fewer."""
    source = random.Random(2)
    own = [Variance(_chi2(source, 4) / _chi2(source, 6), 4) for _ in range(2000)]
    assert 3.5 < pooled(own)[0].dof - 4 < 7.5


def test_cases_that_differ_widely_keep_their_own_noise() -> None:
    source = random.Random(3)
    own = [Variance(_chi2(source, 9) * 10.0 ** (i % 6), 9) for i in range(60)]
    found = pooled(own)
    assert all(v.dof < 9 + 1.5 for v in found)
    quiet, noisy = found[0].value, found[5].value
    assert noisy / quiet > 1e3


def test_a_value_that_repeats_by_luck_is_given_the_usual_noise() -> None:
    source = random.Random(4)
    own = [Variance(_chi2(source, 4), 4) for _ in range(20)] + [Variance(0.0, 4)]
    assert pooled(own)[-1].value > 0.1


def test_few_cases_stay_with_their_own() -> None:
    own = [Variance(0.1 * (i + 1), 3) for i in range(LEAST_CASES - 1)]
    assert pooled(own) == own
    assert pooled([]) == []
