"""Slopes against the sequence on a made-up sweep whose true slopes are known."""

from types import ModuleType

import pytest

from harness.analysis.results import results
from harness.analysis.slopes import held, slopes
from harness.store.rows import StoredRun
from harness.suite.points import GeneratePoint


def test_held_is_the_mean_over_the_decoded_tokens() -> None:
    point = GeneratePoint(batch=1, prompt_tokens=100, new_tokens=4)
    assert held(point) == pytest.approx((101 + 102 + 103) / 3)


def test_the_true_slopes_lie_in_their_intervals(example_sweep: ModuleType) -> None:
    """The example adds 21 us a token and sequence for recompute, 0.24 us and 0.06 us for caches."""
    groups = {g.conditions.workload.batch: g for g in slopes(results(example_sweep.runs()))}
    assert sorted(groups) == [1, 8]
    true_ns = {"mha": 240.0, "gqa": 60.0, "mha+recompute": 21_000.0}
    for batch, group in groups.items():
        for slope in group.slopes:
            low, high = slope.line.slope_low, slope.line.slope_high
            assert low is not None
            assert high is not None
            # Half-normal noise a step raises every time by 1.6 % on average.
            true = true_ns[slope.stack] * batch * 1.016
            assert low * 0.97 <= true <= high * 1.03
    small = {slope.stack: slope for slope in groups[1].slopes}
    assert small["mha"].near_flat
    assert not small["mha+recompute"].near_flat
    assert small["mha+recompute"].line.slope > 50 * small["mha"].line.slope


def test_one_length_gives_no_line(example_sweep: ModuleType) -> None:
    runs = example_sweep.rounds(example_sweep.case("mha"), "tpot", [1e6, 1e6])
    assert slopes(results(runs)) == []


def test_two_lengths_in_one_process_give_a_line_without_an_interval(
    example_sweep: ModuleType,
) -> None:
    runs = [
        *example_sweep.rounds(example_sweep.case("mha", prompt=100), "tpot", [1e6]),
        *example_sweep.rounds(example_sweep.case("mha", prompt=1100), "tpot", [3e6], first_id=2),
    ]
    ((slope,),) = (group.slopes for group in slopes(results(runs)))
    assert slope.per_thousand_ns == pytest.approx(2e6)
    assert slope.level_ns == pytest.approx(1e6)
    assert slope.growth == pytest.approx(2)
    assert slope.line.slope_low is None


def test_batches_dtypes_and_threads_are_fitted_apart(example_sweep: ModuleType) -> None:
    runs: list[StoredRun] = []
    for fields in ({}, {"batch": 8}, {"dtype": "bfloat16"}, {"threads": 2}):
        for prompt in (128, 256):
            of = example_sweep.case("mha", prompt=prompt, **fields)
            runs += example_sweep.rounds(of, "tpot", [1e6, 1e6], first_id=len(runs) + 1)
    assert len(slopes(results(runs))) == 4


@pytest.mark.parametrize(
    ("times", "flat"),
    [
        ([1.00e6, 1.01e6, 1.20e6, 1.21e6], True),  # a fifth more time for eight times the tokens
        ([1.00e6, 1.01e6, 2.00e6, 2.02e6], False),
        ([1.00e6, 1.60e6, 1.10e6, 1.50e6], False),  # level, but the interval allows a steep rise
        ([1.20e6, 1.21e6, 1.00e6, 1.01e6], True),
    ],
    ids=["near flat", "rising", "uncertain", "falling"],
)
def test_near_flat_is_said_only_where_the_interval_allows_nothing_else(
    times: list[float], flat: bool, example_sweep: ModuleType
) -> None:
    runs = [
        *example_sweep.rounds(example_sweep.case("mha", prompt=128), "tpot", times[:2]),
        *example_sweep.rounds(
            example_sweep.case("mha", prompt=1024), "tpot", times[2:], first_id=3
        ),
    ]
    ((slope,),) = (group.slopes for group in slopes(results(runs)))
    assert slope.near_flat is flat


def test_failed_and_undefined_cases_are_left_out(example_sweep: ModuleType) -> None:
    bad = example_sweep.case("mha", prompt=512)
    runs = [
        *example_sweep.rounds(example_sweep.case("mha"), "tpot", [1e6, 1e6]),
        *example_sweep.stored(bad, example_sweep.record(bad, 1, "oom"), first_id=3),
    ]
    assert slopes(results(runs)) == []
