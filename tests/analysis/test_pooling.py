"""Pooled noise: what it finds in made-up variances."""

import math
import random

from harness.analysis.pooling import LEAST_CASES, Noise, Variance, pooled


def _chi2(random_: random.Random, dof: int) -> float:
    return math.fsum(random_.gauss(0, 1) ** 2 for _ in range(dof)) / dof


def test_equal_noise_is_pooled_almost_wholly() -> None:
    source = random.Random(1)
    own = [Variance(_chi2(source, 4), 4) for _ in range(200)]
    noise = pooled(own)
    found = [n.usual for n in noise]
    assert max(v.value for v in own) / min(v.value for v in own) > 50
    assert max(v.value for v in found) / min(v.value for v in found) < 1.6
    assert all(v.dof > 40 for v in found)
    assert all(n.alone < 0.2 for n in noise)


def test_the_prior_of_made_up_variances_is_found() -> None:
    """Scaled inverse chi-squared with 6 degrees of freedom: pooling adds about 6, rather fewer."""
    source = random.Random(2)
    own = [Variance(_chi2(source, 4) / _chi2(source, 6), 4) for _ in range(2000)]
    assert 3.5 < pooled(own)[0].usual.dof - 4 < 7.5


def test_cases_that_differ_widely_keep_their_own_noise() -> None:
    source = random.Random(3)
    own = [Variance(_chi2(source, 9) * 10.0 ** (i % 6), 9) for i in range(60)]
    found = [n.usual for n in pooled(own)]
    assert all(v.dof < 9 + 1.5 for v in found)
    quiet, noisy = found[0].value, found[5].value
    assert noisy / quiet > 1e3


def test_a_value_that_repeats_by_luck_is_given_the_usual_noise() -> None:
    source = random.Random(4)
    own = [Variance(_chi2(source, 4), 4) for _ in range(20)] + [Variance(0.0, 4)]
    assert pooled(own)[-1].usual.value > 0.1


def test_few_cases_stay_with_their_own() -> None:
    own = [Variance(0.1 * (i + 1), 3) for i in range(LEAST_CASES - 1)]
    assert pooled(own) == [Noise(v, v, 0.0) for v in own]
    assert pooled([]) == []


def test_a_case_that_is_noisier_than_the_others_stands_by_itself() -> None:
    """Quartiles do not see it; drawn towards the others it would alarm."""
    source = random.Random(5)
    own = [Variance(_chi2(source, 4), 4) for _ in range(20)] + [Variance(100.0, 4)]
    noise = pooled(own)
    assert noise[-1].alone > 0.95
    assert noise[-1].own == own[-1]
    assert max(n.alone for n in noise[:-1]) < 0.5
    by_itself, drawn = (Noise(v, v, 0.0) for v in (own[-1], noise[-1].usual))
    assert noise[-1].upper_tail(15.0, 5) > 0.9 * by_itself.upper_tail(15.0, 5)
    assert drawn.upper_tail(15.0, 5) < by_itself.upper_tail(15.0, 5) / 20


def test_a_case_that_is_quiet_by_luck_does_not_stand_by_itself() -> None:
    source = random.Random(6)
    noise = pooled([Variance(_chi2(source, 4), 4) for _ in range(30)] + [Variance(1e-6, 4)])[-1]
    assert noise.alone < 0.2
    assert noise.own.value == noise.usual.value > 0.3
