"""A processor's table of times: exact where it was measured, between neighbours in between."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from pydantic import ValidationError

from harness.cost import Cost, Product
from harness.predict.efficiency import Efficiency
from harness.predict.forward import BOUNDS, forward
from harness.predict.measured import Measured
from harness.predict.products import Rates

TABLE = Measured(
    rows=(1, 4, 16),
    head_factor=(2.0, 1.5, 1.0),
    working_sets=(1e6, 1e8),
    product_seconds=((1e-10, 4e-10), (2e-10, 6e-10), (8e-10, 9e-10)),
    launch_seconds_more=(0.0, 3e-5),
    queries=(1, 64),
    attention_widths=(16, 256),
    attention_flops_per_s=((2e9, 2e10), (1e9, 1e10)),
    state_bytes_per_s=5e9,
    between_sizes=(1e4, 1e6),
    between_bytes_per_s=(4e9, 2e9),
)
HOST = Efficiency(
    matrix=1, memory=1, launch_seconds=1e-5, step_seconds=1e-4, sequence_seconds=1e-6, spread=0,
    source="made up",
)  # fmt: skip
RATES = Rates(2e10, 1e10, 1, HOST, TABLE)


def test_entries_are_what_was_measured() -> None:
    for i, rows in enumerate(TABLE.rows):
        for j, held in enumerate(TABLE.working_sets):
            found = float(TABLE.number_seconds(rows, held))
            assert found == pytest.approx(TABLE.product_seconds[i][j])


def test_between_entries_lies_their_geometric_mean() -> None:
    assert float(TABLE.number_seconds(2.0, 1e6)) == pytest.approx((1e-10 * 2e-10) ** 0.5)
    assert float(TABLE.number_seconds(1.0, 1e7)) == pytest.approx(2e-10)


def test_more_rows_than_measured_take_in_proportion_and_other_sizes_the_nearest() -> None:
    assert float(TABLE.number_seconds(64.0, 1e6)) == pytest.approx(4 * 8e-10)
    assert float(TABLE.number_seconds(1.0, 1.0)) == pytest.approx(1e-10)
    assert float(TABLE.number_seconds(1.0, np.inf)) == pytest.approx(4e-10)


def test_a_grid_of_rows_and_working_sets_is_what_its_points_are() -> None:
    rows, held = np.array([[1.0], [3.0], [40.0]]), np.array([[1e5, 3e6, 1e9]])
    whole = TABLE.number_seconds(rows, held)
    assert whole.shape == (3, 3)
    for i in range(3):
        for j in range(3):
            one = TABLE.number_seconds(rows[i, 0], held[0, j])
            assert whole[i, j] == pytest.approx(float(one))


def test_a_weight_that_lies_as_an_embedding_takes_longer() -> None:
    plain = float(TABLE.number_seconds(1.0, 1e8))
    assert float(TABLE.number_seconds(1.0, 1e8, as_embedding=True)) == pytest.approx(2 * plain)


def test_attention_goes_by_its_queries() -> None:
    seconds = TABLE.attention_seconds(np.array([1e9, 1e9, 1e9]), np.array([1.0, 8.0, 500.0]))
    assert seconds == pytest.approx([0.05, 1e9 / (2e10 * 1e10) ** 0.5, 0.1])


def test_attention_of_a_narrow_model_is_slower_for_its_work() -> None:
    narrow, between = (
        float(TABLE.attention_seconds(np.array(1e9), 1.0, width)) for width in (16.0, 64.0)
    )
    assert narrow == pytest.approx(0.5)
    assert between == pytest.approx(1e9 / (2e9 * 2e10) ** 0.5)


def test_a_forward_is_the_sum_of_its_parts() -> None:
    product = Product(4, 1000, 500, count=2)
    cost = Cost(
        flops=product.flops + 1e6,
        weight_bytes=4 * (product.weights + 1000),
        state_read_bytes=5e5,
        activation_bytes=product.activations * 4 + 2e6,
        launches=10,
        products=(product,),
    )
    found = forward(cost, RATES, 4, sequences=3, working_set=1e8)
    parts = {
        "products": 1e6 * 6e-10,
        "weights of no product": 1000 * 4e-10,
        "attention": 1e6 / 2e10,
        "state": 5e5 / 5e9,
        "between": 2e6 / math.exp(math.log(4e9) + math.log(0.5) * math.log(20) / math.log(100)),
        "launches": 10 * (1e-5 + 3e-5),
        "host": 1e-4 + 3e-6,
    }
    assert float(found.seconds) == pytest.approx(sum(parts.values()))
    slow = dataclasses.replace(RATES, efficiency=HOST.model_copy(update={"prompt_seconds": 0.5}))
    once = float(forward(cost, slow, 4, sequences=3, working_set=1e8).seconds)
    assert once == pytest.approx(sum(parts.values())), "a step feeds no prompt"
    fed = forward(cost, RATES, 4, sequences=3, working_set=1e8, queries=2)
    fed_slowly = forward(cost, slow, 4, sequences=3, working_set=1e8, queries=2)
    assert float(fed_slowly.seconds - fed.seconds) == pytest.approx(0.5)
    assert BOUNDS[int(found.binds)] == "memory"


def test_a_launch_takes_longer_among_large_weights() -> None:
    found = TABLE.launch_more(np.array([1.0, 1e7, 1e9]))
    assert found == pytest.approx([0.0, 1.5e-5, 3e-5])


def test_what_lies_between_is_slower_where_each_operation_leaves_the_caches() -> None:
    moved = np.array([1e6, 1e6, 1e6])
    seconds = TABLE.between_seconds(moved, np.array([1000.0, 10.0, 0.0]))
    assert seconds == pytest.approx([1e6 / 4e9, 1e6 / (4e9 * 2e9) ** 0.5, 1e6 / 2e9])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("product_seconds", [[1e-10, 4e-10]]),
        ("product_seconds", [[1e-10], [1e-10], [1e-10]]),
        ("head_factor", [1.0]),
        ("launch_seconds_more", [1e-6]),
        ("between_bytes_per_s", [1e9]),
        ("attention_flops_per_s", [[1e9, 1e9]]),
        ("attention_flops_per_s", [[1e9], [1e9]]),
    ],
)
def test_what_is_no_table_is_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError):
        Measured.model_validate(TABLE.model_dump() | {field: value})
