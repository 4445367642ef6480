"""Every time metric against traces with a known answer; each of the field's faults is one."""

from __future__ import annotations

import pytest

from harness.measure.latency import metrics, phases, step_gaps, timings
from harness.measure.trace import Emitted, MeasurementError, Step, Submission, Trace
from harness.metrics import METRICS
from harness.run import MetricValue


def trace(requests: dict[int, list[tuple[int, int]]], prompt_tokens: int = 10) -> Trace:
    """Requests submitted at 0 with emissions (stamp, tokens); a step ends at each stamp, and begins
    where the one before ended."""
    stamps = sorted({stamp for emissions in requests.values() for stamp, _ in emissions})
    emitted = sorted(
        (stamp, request, tokens)
        for request, emissions in requests.items()
        for stamp, tokens in emissions
    )
    steps = [
        Step(start, end, sum(tokens for stamp, _, tokens in emitted if stamp == end))
        for start, end in zip([0, *stamps], stamps, strict=False)
    ]
    return Trace(
        tuple(Submission(request, 0, prompt_tokens) for request in requests),
        tuple(Emitted(request, stamp, tuple(range(tokens))) for stamp, request, tokens in emitted),
        tuple(steps),
    )


def values(*traces: Trace, lookahead: int = 8) -> dict[str, MetricValue]:
    return {metric.name: metric for metric in metrics(traces, lookahead)}


def test_a_plain_request() -> None:
    """One token a step: 100 to the first, then 10, 20, 30."""
    found = values(trace({0: [(100, 1), (110, 1), (130, 1), (160, 1)]}))
    assert found["ttft"].value == 100
    assert found["tpot"].value == 20
    assert found["itl_p50"].value == 20
    assert found["step_gap"].value == 20
    assert found["tokens_per_step"].value == 1
    assert found["e2e"].value == 160
    assert found["throughput"].value == pytest.approx(4 / 160e-9)
    assert found["prefill_throughput"].value == pytest.approx(10 / 100e-9)
    assert found["decode_throughput"].value == pytest.approx(3 / 60e-9)


def test_first_token_time_is_no_inter_token_latency() -> None:
    """vllm#7242: as many gaps as tokens after the first, and TTFT plus gaps is E2E."""
    [timing] = timings(trace({0: [(100, 1), (110, 1), (130, 1)]}))
    assert len(timing.gaps) == timing.tokens - 1
    assert timing.ttft_ns + sum(b - a for a, b, _ in timing.gaps) == timing.e2e_ns


def test_several_tokens_a_step_are_counted_a_token() -> None:
    """sglang#12064: the gap is 30, the latency of a token 10, and both are told."""
    found = values(trace({0: [(100, 1), (130, 3), (160, 3)]}))
    assert found["step_gap"].value == 30
    assert found["itl_p50"].value == 10
    assert found["tpot"].value == 10
    assert found["tokens_per_step"].value == 3


def test_tokens_of_the_first_emission_cost_no_later_time() -> None:
    """After a first emission of k tokens, TPOT divides by (tokens - k)."""
    found = values(trace({0: [(100, 3), (110, 1), (120, 1)]}))
    assert found["tpot"].value == 10
    assert found["prefill_throughput"].value is None
    assert "first emission carries 3" in (found["prefill_throughput"].null_reason or "")


def test_inter_token_latency_is_weighted_by_tokens() -> None:
    """Nine tokens at 1 and one at 100: the median token took 1, not the median gap."""
    found = values(trace({0: [(100, 1), (109, 9), (209, 1)]}))
    assert found["itl_p50"].value == 1
    assert found["step_gap"].value == 54.5


def test_one_token_leaves_decode_undefined_and_the_rest_valid() -> None:
    """sglang#1585: no decode, so no median of nothing and no NaN."""
    found = values(trace({0: [(100, 1)], 1: [(100, 1)]}))
    none = {"tpot", "itl_p50", "itl_p90", "itl_p99", "step_gap", "tokens_per_step"}
    for name in none | {"decode_throughput"}:
        assert found[name].value is None
        assert found[name].null_reason
    assert found["ttft"].value == found["e2e"].value == 100
    assert found["prefill_throughput"].value == pytest.approx(20 / 100e-9)


def test_answers_held_back_until_the_end_tell_no_phases() -> None:
    """Everything in one emission: TTFT is E2E, and prefill cannot be told from decode."""
    found = values(trace({0: [(400, 4)], 1: [(400, 4)]}))
    assert found["ttft"].value == found["e2e"].value == 400
    assert found["tpot"].value is None
    assert found["prefill_throughput"].value is None
    assert found["decode_throughput"].value is None


@pytest.mark.parametrize(
    "emissions",
    [[(900, 1), (1000, 9)], [(900, 9), (1000, 1)], [(100, 1), (900, 8), (1000, 1)]],
    ids=["rest with the last", "many in the first", "in the middle"],
)
def test_tokens_that_were_held_back_have_no_times(emissions: list[tuple[int, int]]) -> None:
    """Ten steps of 100, nine tokens let go of together: a TPOT of 11 would be nine times too good.
    With a decoder that settles nine tokens a step, it is no fault."""
    held = values(trace({0: emissions}), lookahead=0)
    per_token = set(held) - {"ttft", "e2e", "throughput"}
    assert {"tpot", "itl_p50", "step_gap", "decode_throughput"} <= per_token
    for name in per_token:
        assert held[name].value is None
        assert "held back" in (held[name].null_reason or "")
    assert held["e2e"].value == 1000
    assert held["throughput"].value == pytest.approx(10 / 1000e-9)
    assert values(trace({0: emissions}), lookahead=8)["tpot"].value is not None


def test_an_early_end_divides_by_the_actual_count() -> None:
    """sglang#10746: a request that ended after 3 tokens of more counts 3."""
    found = values(trace({0: [(100, 1), (110, 1), (120, 1)], 1: [(100, 1), (110, 1)]}))
    assert found["tpot"].value == 10
    assert found["throughput"].value == pytest.approx(5 / 120e-9)


def test_a_request_without_a_token_is_an_error() -> None:
    """sglang#9585: zero tokens never become a time of zero."""
    with pytest.raises(MeasurementError, match="request 1 emitted no token"):
        timings(trace({0: [(100, 1)], 1: []}))


def test_a_time_of_zero_is_an_error() -> None:
    wrong = Trace((Submission(0, 100, 1),), (Emitted(0, 100, (1,)),), (Step(90, 100, 1),))
    with pytest.raises(MeasurementError, match="zero or less"):
        timings(wrong)


def test_decode_is_timed_directly_and_never_negative() -> None:
    """optimum-benchmark#128: phases are sums of their own steps, also where decode is short."""
    split = phases(trace({0: [(1000, 1), (1001, 1)]}))
    assert (split.prefill_ns, split.decode_ns) == (1000, 1)
    assert (split.prompt_tokens, split.decode_tokens) == (10, 1)


def test_phases_that_overlap_are_not_told_apart() -> None:
    """Request 0 decodes while request 1 is still in prefill: a step belongs to both."""
    found = values(trace({0: [(100, 1), (200, 1)], 1: [(200, 1), (210, 1)]}))
    assert found["prefill_throughput"].value is None
    assert "decoded while others" in (found["decode_throughput"].null_reason or "")


def test_requests_that_step_together_give_one_gap() -> None:
    """A batch of 8 has 2 gaps, not 16: a percentile would else exist on one observation."""
    batch = {i: [(100, 1), (110, 1), (121, 1)] for i in range(8)}
    assert step_gaps(trace(batch)) == [10, 11]
    found = values(trace(batch))
    assert found["step_gap"].n == 2
    assert found["itl_p90"].value is None
    assert found["itl_p90"].null_reason == "needs 10 gaps, has 2"


@pytest.mark.parametrize(("name", "needed"), [("itl_p90", 10), ("itl_p99", 100)])
def test_a_percentile_needs_enough_gaps(name: str, needed: int) -> None:
    def gaps(count: int) -> Trace:
        return trace({0: [(100 + 10 * i, 1) for i in range(count + 1)]})

    assert values(gaps(needed - 1))[name].value is None
    assert values(gaps(needed))[name].value == 10


def test_repetitions_are_pooled_and_their_medians_bound_the_value() -> None:
    """Six repetitions at 10 to 15 a step: the bounds are the smallest and largest of them."""
    runs = [trace({0: [(100, 1), (100 + gap, 1), (100 + 2 * gap, 1)]}) for gap in range(10, 16)]
    found = values(*runs)["step_gap"]
    assert (found.value, found.n) == (12.5, 12)
    assert (found.ci_low, found.ci_high) == (10, 15)
    assert values(*runs[:5])["ttft"].ci_low is None


def test_every_metric_is_in_the_registry_and_none_is_nan() -> None:
    for one in (trace({0: [(100, 1)]}), trace({0: [(100, 1), (110, 2)]})):
        for metric in metrics([one], lookahead=1):
            assert metric.name in METRICS
            assert (metric.value is None) == (metric.null_reason is not None)
            assert metric.value is None or metric.value > 0
