"""What `harness calibrate` measures of a processor, with everything made small: a real look."""

from __future__ import annotations

import itertools

import pytest
import torch

from harness.predict import attention, efficiency, local, operations, timing
from harness.predict.efficiency import Local

MIB = 1024**2


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Local:
    monkeypatch.setattr(timing, "_PASSES", 1)
    monkeypatch.setattr(timing, "_SECONDS", 0.0)
    monkeypatch.setattr(local, "_PASSES", 1)
    monkeypatch.setattr(operations, "ROWS", (1, 4))
    monkeypatch.setattr(operations, "WORKING_SETS", (MIB, 2 * MIB))
    monkeypatch.setattr(operations, "OTHERS", ((2, 128, 384, MIB),))
    monkeypatch.setattr(operations, "_BETWEEN_ROWS", (8, 64))
    return local.measure(1, "float32")


def test_a_processor_is_measured_whole(measured: Local) -> None:
    table = measured.measured
    assert (table.rows, table.working_sets) == ((1, 4), (MIB, 2 * MIB))
    assert (table.queries, table.attention_widths) == (attention.QUERIES, attention.WIDTHS)
    assert measured.bandwidth == pytest.approx(4 / table.product_seconds[0][-1])
    assert table.launch_seconds_more[0] == 0.0
    assert list(table.launch_seconds_more) == sorted(table.launch_seconds_more)
    assert list(table.between_sizes) == sorted(table.between_sizes)
    share = measured.efficiency
    assert share.launch_seconds > 0
    assert share.spread >= efficiency.stacks_spread()
    assert Local.model_validate_json(measured.model_dump_json()) == measured


def test_threads_are_left_as_they_were() -> None:
    before = torch.get_num_threads()
    with pytest.raises(AttributeError):
        local.measure(before + 1, "float33")  # type: ignore[arg-type]
    assert torch.get_num_threads() == before


def test_a_median_is_a_count_s_and_of_all_passes() -> None:
    now = itertools.count(0, 500)
    seconds = timing.typical([timing.Operation(lambda: None, 5)], lambda: next(now))
    assert seconds == [pytest.approx(500e-9 / 5)]


def test_few_weights_serve_where_all_would_take_too_long() -> None:
    weights = operations._weights(32, 96, 8 * 32 * 96 * 4 * 4, torch.float32)
    one = sum(weight.numel() for weight in weights[0])
    assert len(weights) > 2
    assert len(operations._affordable(weights, 2.5 * one)) == 2
    assert len(operations._affordable(weights, 0.0)) == 1
    assert len(operations._affordable(weights, 1e12)) == len(weights)
