"""Ratios: direction-aware, paired by round, and refused between unlike rows."""

from types import ModuleType
from typing import Any

import pytest

from harness.analysis.ratios import baselines, family, point, ratio, unlike
from harness.analysis.results import Result, results
from harness.errors import UsageError


def _result(example: ModuleType, stack: str, metric: str, values: list[float], **at: Any) -> Result:
    (result,) = results(example.rounds(example.case(stack, **at), metric, values))
    return result


def test_a_time_twice_as_short_is_two_times_better(example_sweep: ModuleType) -> None:
    base = _result(example_sweep, "mha", "tpot", [2e6, 2.2e6, 2.1e6])
    fast = _result(example_sweep, "gqa", "tpot", [1e6, 1.1e6, 1.05e6])
    found = ratio(fast, base, "tpot")
    assert found.value == pytest.approx(2)
    assert found.n_pairs == 3
    assert all(log > 0 for log in found.logs)
    back = ratio(base, fast, "tpot")
    assert back.value == pytest.approx(0.5)
    assert back.logs == pytest.approx([-log for log in found.logs])


def test_a_throughput_twice_as_high_is_two_times_better(example_sweep: ModuleType) -> None:
    base = _result(example_sweep, "mha", "throughput", [100, 101])
    fast = _result(example_sweep, "gqa", "throughput", [200, 202])
    assert ratio(fast, base, "throughput").value == pytest.approx(2)


def test_a_metric_without_a_direction_is_a_quotient(example_sweep: ModuleType) -> None:
    base = _result(example_sweep, "mha", "intensity", [2.0, 2.0])
    other = _result(example_sweep, "gqa", "intensity", [6.0, 6.0])
    assert ratio(other, base, "intensity").value == 3.0
    assert ratio(base, other, "intensity").value == pytest.approx(1 / 3)


def test_counts_that_repeat_are_exact_and_times_never_are(example_sweep: ModuleType) -> None:
    """A peak that repeats is luck: on a CPU it is what the system happened to hand out."""
    for metric, exact in (("state_bytes", True), ("peak_bytes", False), ("tpot", False)):
        base = _result(example_sweep, "mha", metric, [9, 9])
        other = _result(example_sweep, "gqa", metric, [3, 3])
        assert ratio(other, base, metric).exact is exact, metric
    moved = _result(example_sweep, "gqa", "state_bytes", [3, 4])
    base = _result(example_sweep, "mha", "state_bytes", [9, 9])
    assert ratio(moved, base, "state_bytes").exact is False


def test_a_drift_that_both_sides_share_cancels(example_sweep: ModuleType) -> None:
    """Rounds of 1, 2 and 4 times the time: unpaired, the interval would span an octave."""
    base = _result(example_sweep, "mha", "tpot", [1e6, 2e6, 4e6])
    fast = _result(example_sweep, "gqa", "tpot", [0.50e6, 1.01e6, 1.99e6])
    found = ratio(fast, base, "tpot")
    assert found.ci_low is not None
    assert found.ci_high is not None
    assert 1.9 < found.ci_low < 2 < found.ci_high < 2.1


def test_pairs_are_made_by_round_and_not_by_place(example_sweep: ModuleType) -> None:
    of, other = example_sweep.case("mha"), example_sweep.case("gqa")
    base = example_sweep.rounds(of, "tpot", [1e6, 2e6, 4e6])
    run = [
        example_sweep.record(other, n, metrics={"tpot": v}) for n, v in ((3, 4e6), (2, 2e6), (5, 9))
    ]
    found = results([*base, *example_sweep.stored(other, *run, first_id=10)])
    paired = ratio(found[1], found[0], "tpot")
    assert (paired.value, paired.n_pairs) == (1.0, 2)


def test_one_pair_has_a_value_and_a_reason_for_no_interval(example_sweep: ModuleType) -> None:
    base = _result(example_sweep, "mha", "tpot", [2e6])
    found = ratio(_result(example_sweep, "gqa", "tpot", [1e6]), base, "tpot")
    assert (found.value, found.ci_low) == (2.0, None)
    assert found.interval_reason is not None


@pytest.mark.parametrize(
    ("at", "word"),
    [
        ({"batch": 8}, "workload point (B8 P128 N64 against B1 P128 N64)"),
        ({"prompt": 1024}, "workload point"),
        ({"dtype": "bfloat16"}, "dtype (bfloat16 against float32)"),
        ({"backend": "triton"}, "backend"),
        ({"threads": 2}, "number of threads"),
        ({"cuda_graph": True}, "use of CUDA graphs"),
        ({"definition_version": 2}, "definition of the metrics"),
        ({"model": "llama-3-8b"}, "model (llama-3-8b against tiny)"),
    ],
)
def test_unlike_rows_are_refused_with_what_differs(
    at: dict[str, Any], word: str, example_sweep: ModuleType
) -> None:
    base = _result(example_sweep, "mha", "tpot", [1e6, 1e6])
    other = _result(example_sweep, "gqa", "tpot", [1e6, 1e6], **at)
    found = ratio(other, base, "tpot")
    assert found.value is None
    assert found.reason is not None
    assert word in found.reason
    assert point(other) != point(base)


def test_measured_is_not_divided_by_predicted(example_sweep: ModuleType) -> None:
    from dataclasses import replace

    base = _result(example_sweep, "mha", "tpot", [1e6, 1e6])
    refusal = unlike(base, replace(base, source="predicted"))
    assert refusal is not None
    assert "source (measured against predicted)" in refusal


def test_members_of_one_family_are_alike(example_sweep: ModuleType) -> None:
    mha = _result(example_sweep, "mha", "tpot", [2e6, 2e6], model="zoo/small-mha")
    gqa = _result(example_sweep, "gqa", "tpot", [1e6, 1e6], model="zoo/small-gqa")
    assert family(mha.case) == family(gqa.case) == "zoo/small"
    assert ratio(gqa, mha, "tpot").value == 2.0
    # A folder of the user's own is no family, whatever its name ends with.
    assert family(example_sweep.case("mha", model="./mine-mha")) == "./mine-mha"


def test_a_failed_side_and_an_undefined_metric_give_the_reason(example_sweep: ModuleType) -> None:
    of = example_sweep.case("gqa")
    base = _result(example_sweep, "mha", "tpot", [1e6, 1e6])
    (failed,) = results(
        example_sweep.stored(of, example_sweep.record(of, 1, "oom", reason="too large"))
    )
    assert ratio(failed, base, "tpot").reason == "the result is oom: too large"
    (undefined,) = results(
        example_sweep.stored(of, example_sweep.record(of, metrics={"tpot": None}))
    )
    assert ratio(undefined, base, "tpot").reason == "tpot of the result is undefined: too few gaps"
    assert ratio(base, undefined, "ttft").reason == "ttft of the result is undefined: not measured"
    zero = _result(example_sweep, "gqa", "state_bytes", [0, 0])
    held = _result(example_sweep, "mha", "state_bytes", [9, 9])
    assert ratio(zero, held, "state_bytes").reason is not None
    apart = [example_sweep.record(of, 7, metrics={"tpot": 1e6})]
    (later,) = results(example_sweep.stored(of, *apart))
    assert ratio(later, base, "tpot").reason == "the two were never measured in the same round"


def test_an_unknown_metric_is_refused(example_sweep: ModuleType) -> None:
    base = _result(example_sweep, "mha", "tpot", [1e6, 1e6])
    with pytest.raises(UsageError, match="did you mean 'tpot'"):
        ratio(base, base, "topt")


def test_baselines_are_found_by_point(example_sweep: ModuleType) -> None:
    found = results(example_sweep.runs())
    against = baselines(found, "mha")
    assert len(against) == 6
    assert all(result.case.label == "mha" for result in against.values())
    assert all(point(result) in against for result in found)
