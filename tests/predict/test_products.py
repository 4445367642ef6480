"""The form of the model of a matrix product: its limits, and that it never breaks them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.predict import efficiency
from harness.predict.fitting import minimise
from harness.predict.products import Rates, overlapped, product_seconds

GPU = Rates(312e12, 2039e9, 108, efficiency.gpu())


@settings(max_examples=200, deadline=None)
@given(rows=st.integers(1, 20_000), inner=st.integers(1, 30_000), outer=st.integers(1, 130_000))
def test_nothing_is_faster_than_the_reached_rates(rows: int, inner: int, outer: int) -> None:
    seconds = float(product_seconds(float(rows), inner, outer, GPU, 2))
    share = GPU.efficiency
    computed = 2.0 * rows * inner * outer / (GPU.flops_per_s * share.matrix)
    moved = 2.0 * (rows * inner + inner * outer + rows * outer) / (2039e9 * share.memory)
    assert seconds >= max(computed, moved) * 0.999
    assert math.isfinite(seconds)


def test_rows_that_fill_one_tile_cost_the_same() -> None:
    few = product_seconds(np.array([1.0, 16.0, 64.0]), 4096, 4096, GPU, 2)
    assert few.max() / few.min() < 1.05


def test_fewer_bytes_a_weight_take_less_where_memory_binds() -> None:
    full = product_seconds(1.0, 8192, 28672, GPU, 2)
    quarter = product_seconds(1.0, 8192, 28672, GPU, 2, weight_size=0.5)
    # Not four times: tiles are fed with activations as before.
    assert 2 < float(full / quarter) < 4


def test_overlap_is_between_the_larger_and_the_sum() -> None:
    one, other = np.array([1.0, 1.0]), np.array([1.0, 1e-6])
    assert overlapped(one, other) == pytest.approx([2 ** (1 / 3), 1.0])


def test_a_fit_finds_the_constants_that_made_the_data() -> None:
    truth = (0.7, 0.9, 2.5, 5.0)

    def badness(values: object) -> float:
        return float(np.abs(np.log(np.array(values) / np.array(truth))).sum())

    assert minimise(badness, (0.5, 0.5, 1.0, 1.0)) == pytest.approx(truth, rel=0.01)
