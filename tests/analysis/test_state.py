"""State bytes against the lecture's formula, from the plan of each case."""

from dataclasses import replace
from types import ModuleType

import pytest

from harness.analysis.results import results
from harness.analysis.state import formula_bytes, planned, states


def test_the_formula_by_hand(example_sweep: ModuleType) -> None:
    """tiny: 3 layers, 4 heads of 16, float32; 8 sequences of 128 + 64 - 1 tokens."""
    of = example_sweep.case("mha", batch=8)
    assert formula_bytes(of.workload, planned(of)) == 8 * 191 * 3 * 4 * 16 * 2 * 4


def test_grouped_queries_hold_a_quarter_and_recompute_nothing(example_sweep: ModuleType) -> None:
    found = {r.result.case.label: r for r in states(results(example_sweep.runs()), "mha")}
    assert found["gqa"].cut == pytest.approx(4)
    assert found["mha"].cut == pytest.approx(1)
    assert found["mha+recompute"].formula_bytes == 0
    assert found["mha+recompute"].cut is None
    assert all(row.agrees for row in found.values())


def test_half_the_bytes_for_half_the_format(example_sweep: ModuleType) -> None:
    of, wide = example_sweep.case("mha", dtype="bfloat16"), example_sweep.case("mha")
    narrow = formula_bytes(of.workload, planned(of))
    assert narrow is not None
    assert narrow * 2 == formula_bytes(wide.workload, planned(wide))


def test_layers_that_share_keys_and_values_hold_them_once(example_sweep: ModuleType) -> None:
    of = example_sweep.case("mha")
    plan = planned(of)
    shared = replace(plan, shape=replace(plan.shape, kv_share=2))
    whole = formula_bytes(of.workload, plan)
    assert whole is not None
    # 3 layers in groups of 2 are 2 groups.
    assert formula_bytes(of.workload, shared) == whole // 3 * 2


def test_other_layers_than_attention_have_no_formula(example_sweep: ModuleType) -> None:
    runs = example_sweep.rounds(example_sweep.case("mha"), "state_bytes", [9.0, 9.0])
    plan = planned(example_sweep.case("mha"))
    windowed = replace(plan, shape=replace(plan.shape, windows=(64,) * plan.shape.layers))
    (row,) = states(results(runs), "mha", lambda _: windowed)
    assert (row.formula_bytes, row.agrees) == (None, None)
    assert row.reason == "its layers are not plain attention"


def test_a_byte_too_many_is_seen(example_sweep: ModuleType) -> None:
    of = example_sweep.case("mha")
    right = example_sweep.state_bytes(of)
    runs = example_sweep.rounds(of, "state_bytes", [right + 1.0, right + 1.0])
    (row,) = states(results(runs), "mha")
    assert row.agrees is False


def test_a_model_that_is_not_here_gives_the_reason(example_sweep: ModuleType) -> None:
    of = example_sweep.case("mha", model="zoo/gone-mha", checkpoint_hash="0" * 64)
    (row,) = states(results(example_sweep.rounds(of, "state_bytes", [9.0, 9.0])), "mha")
    assert row.formula_bytes is None
    assert row.reason is not None
    assert "zoo/gone-mha" in row.reason
