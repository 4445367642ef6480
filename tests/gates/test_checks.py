"""Counts, state bytes, floors, verdicts and the log of logits, each with what must fail it."""

from __future__ import annotations

import json
import math

import pytest
import torch

from harness.gates.counts import check_counts
from harness.gates.observe import LogitsLog, choose
from harness.gates.plausibility import check_floor
from harness.gates.poison import poisoned
from harness.gates.state import check_state_bytes, expected_bytes
from harness.gates.verdict import failed, verdict
from harness.measure.trace import Emitted, Step, Submission, Trace
from harness.run import GateResult
from harness.shape import SequenceState, TokenState
from harness.suite.points import GeneratePoint


def trace(*tokens: tuple[int, ...]) -> Trace:
    return Trace(
        tuple(Submission(i, 0, 4) for i in range(len(tokens))),
        tuple(Emitted(i, 10, t) for i, t in enumerate(tokens) if t),
        (Step(0, 10, sum(map(len, tokens))),),
    )


def test_counts_as_asked_pass() -> None:
    assert check_counts([trace((1, 2), (3, 4))], 2, 10).passed


@pytest.mark.parametrize(
    "wrong",
    [((1, 2), (3,)), ((1, 2), ()), ((1, 2), (3, 4, 5)), ((1, 2), (3, 10)), ((1, 2), (3, -1))],
)
def test_counts_of_any_request_in_any_repetition_matter(
    wrong: tuple[tuple[int, ...], ...],
) -> None:
    """sglang#10746, premAI-io/benchmarks#187: too few, none, too many, and no token at all."""
    right = trace((1, 2), (3, 4))
    found = check_counts([right, trace(*wrong), right], 2, 10)
    assert not found.passed
    assert "request 1" in found.detail


POINT = GeneratePoint(batch=3, prompt_tokens=10, new_tokens=5)
KV = TokenState((("k", (2, 8)), ("v", (2, 8))), (0,))


def test_state_bytes_by_the_lecture() -> None:
    """B (P + N - 1) L K H 2 bytes: the last token is never cached."""
    assert expected_bytes([KV] * 4, [], POINT, "float32", incremental=True) == (
        3 * (10 + 5 - 1) * 4 * 2 * 8 * 2 * 4
    )
    assert expected_bytes([KV] * 4, [], POINT, "float32", incremental=False) == 0


def test_state_bytes_of_windows_and_recurrences() -> None:
    window = TokenState(KV.streams, (0,), window=6)
    fixed = SequenceState((("ssm", (16, 4)), ("conv", (16, 3))), (1,))
    assert expected_bytes([window], [fixed], POINT, "bfloat16", incremental=True) == (
        3 * (6 * 32 + 16 * 7) * 2
    )


def test_state_that_differs_by_a_byte_fails() -> None:
    assert check_state_bytes(1000, 1000).passed
    assert not check_state_bytes(1001, 1000).passed
    assert not check_state_bytes(999, 1000).passed


def test_a_time_below_its_floor_is_no_time() -> None:
    """karpathy/llm.c#851: four times the memory's bandwidth is not a fast kernel."""
    assert check_floor("plausible_step", 1000, 0.5e-6, 1.25, "step").passed
    assert check_floor("plausible_step", 1000, 1.2e-6, 1.25, "step").passed
    assert not check_floor("plausible_step", 1000, 4e-6, 1.25, "step").passed


@pytest.mark.parametrize("time", [0, -5, math.nan])
def test_a_time_of_nothing_fails_whatever_the_floor(time: float) -> None:
    assert not check_floor("plausible_step", time, 0.0, 1.25, "step").passed


@pytest.mark.parametrize(
    ("observed", "bound"), [(math.nan, 1.0), (1.0, math.nan), (math.inf, math.inf), (2.0, 1.0)]
)
def test_only_a_number_within_a_number_passes(observed: float, bound: float) -> None:
    found = verdict("x", observed, bound, "")
    assert not found.passed
    # NaN is no JSON: what was not finite comes back as None, with the reason beside it.
    again = GateResult.model_validate_json(found.model_dump_json())
    assert again == found
    assert json.loads(found.model_dump_json())["observed"] in (None, observed)


def test_a_gate_that_could_not_compare_did_not_pass() -> None:
    assert not failed("x", "", "no output").passed
    assert not verdict("x", 0.0, 1.0, "", "and yet", sound=False).passed


def test_the_log_keeps_the_last_look_at_each_token() -> None:
    """A verified draft shows three rows, two stay; the next step decides the third place again."""
    log = LogitsLog([4])
    rows = torch.arange(12.0).view(4, 3)
    log(4, 10, rows[:2])
    log(4, 11, rows[2:])
    log(5, 10, rows)
    seen = log.of(4, 10, 3)
    assert seen is not None
    assert seen.tolist() == [rows[0].tolist(), rows[2].tolist(), rows[3].tolist()]
    assert log.of(4, 10, 4) is None
    rows.zero_()
    assert seen[2].tolist() == [9, 10, 11]


def test_who_is_watched_depends_on_the_round_and_fits_the_budget() -> None:
    assert len(choose(32, 192, "0/0/before")) == 4
    assert len(choose(32, 5000, "0/0/before")) == 1
    assert choose(2, 10, "0/0/before") == [0, 1]
    assert len({tuple(choose(32, 500, f"0/{round_}/before")) for round_ in range(20)}) > 10


def test_memory_that_was_never_written_is_poisoned() -> None:
    """tritonbench#409: what `torch.empty` finds may be the right answer of a moment ago."""
    with poisoned():
        found = [
            torch.empty(3),
            torch.empty_like(torch.zeros(3)),
            torch.zeros(3).new_empty(3),
            torch.empty_strided((3,), (1,)),
        ]
        whole = torch.empty(3, dtype=torch.int64)
        written = torch.empty(3).copy_(torch.ones(3))
    assert all(bool(x.isnan().all()) for x in found)
    assert whole.tolist() == [2**63 - 1] * 3
    assert written.tolist() == [1, 1, 1]
    assert not torch.empty(3).fill_(1).isnan().any()
