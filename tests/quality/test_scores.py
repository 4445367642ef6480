"""Scores of made-up logits with known answers, and intervals that hold what they promise."""

from __future__ import annotations

import math
import random

import pytest
import torch

from harness.quality import scores

HALVES = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]).log()


def test_nats_are_the_logarithms_of_probabilities() -> None:
    found = scores.nats(HALVES + 7, [0, 2])
    assert found.tolist() == pytest.approx([math.log(2), math.log(10)])
    assert found.dtype == torch.float64


def test_hits_are_where_the_likeliest_token_came() -> None:
    assert scores.hits(HALVES, [0, 0]).tolist() == [1, 0]


def test_divergence_is_zero_from_itself_and_the_textbooks_otherwise() -> None:
    assert scores.divergences(HALVES, HALVES - 3).tolist() == pytest.approx([0, 0], abs=1e-12)
    flat = torch.zeros(1, 3)
    expected = 0.5 * math.log(1.5) + 0.5 * math.log(0.75)
    assert scores.divergences(HALVES[:1], flat).item() == pytest.approx(expected)
    # It is no distance: the other way round it is another number.
    assert scores.divergences(flat, HALVES[:1]).item() != pytest.approx(expected)


@pytest.mark.parametrize(
    ("one", "other", "length"),
    [([], [], 0), ([1, 2], [1, 2], 2), ([1, 2, 3], [1, 9, 3], 1), ([1, 2], [1, 2, 3], 2)],
)
def test_common_beginnings(one: list[int], other: list[int], length: int) -> None:
    assert scores.common(one, other) == scores.common(other, one) == length


def test_a_ratio_weighs_texts_by_their_size() -> None:
    found = scores.ratio([2.0, 30.0], [1.0, 10.0])
    assert found.value == pytest.approx(32 / 11)
    assert found.texts == 2
    alone = scores.ratio([2.0], [1.0])
    assert (alone.value, alone.low, alone.high) == (2.0, None, None)


def test_a_mean_has_students_interval() -> None:
    """1, 2, 3: mean 2, standard error 1 / sqrt 3, and t of two degrees is 4.303."""
    found = scores.mean([1.0, 2.0, 3.0])
    assert found.value == 2
    assert found.high == pytest.approx(2 + 4.302653 / math.sqrt(3), rel=1e-6)
    assert found.low == pytest.approx(2 - 4.302653 / math.sqrt(3), rel=1e-6)


def test_intervals_of_ratios_hold_the_truth_as_often_as_they_promise() -> None:
    """Texts of different lengths, each with bits of its own: 95 % over 2,000 draws."""
    draw, inside = random.Random(3), 0
    for _ in range(2000):
        sizes = [draw.uniform(80, 120) for _ in range(16)]
        bits = [1.5 * size + draw.gauss(0, 10) for size in sizes]
        found = scores.ratio(bits, sizes)
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= 1.5 <= found.high
    assert 0.93 < inside / 2000 < 0.97


def test_a_share_stays_between_0_and_1_and_is_never_certain() -> None:
    found = scores.share([1.0, 1.0, 0.0], [1.0, 1.0, 1.0])
    assert found.low == 0
    assert found.high == 1
    # Wilson's for 20 of 20: 1 / (1 + z^2 / 20).
    sure = scores.share([8.0] * 20, [8.0] * 20)
    assert (sure.value, sure.high) == (1.0, 1.0)
    assert sure.low == pytest.approx(1 / (1 + 1.959964**2 / 20), rel=1e-5)
    none = scores.share([0.0] * 20, [8.0] * 20)
    assert (none.value, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(1 - (sure.low or 0), rel=1e-9)
