"""Two sides to verdicts, on made-up results whose truth is known.

Tests that pin a fault of another tool name its thread; rows on detection in histories are pinned
with the history.
"""

import math
import random
from collections import Counter
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest

from harness.analysis.compare import compare, undecided
from harness.analysis.results import Result, results
from harness.analysis.rows import Session
from harness.analysis.verdict import Verdict, Verdicts
from harness.analysis.watched import watched
from harness.errors import UsageError
from harness.exit_codes import ExitCode

AT = datetime(2026, 12, 1, tzinfo=UTC)
SIDE_BY_SIDE, APART = Session(interleaved=True), Session(interleaved=False)


def _told(
    base: list[Result], head: list[Result], session: Session = SIDE_BY_SIDE, **more: Any
) -> Verdicts:
    return compare(base, head, session, title="a against b", at=AT, **more)


def _result(example: ModuleType, metrics: dict[str, list[float | None]], **at: Any) -> Result:
    """One case with these values, a round each."""
    of = example.case(at.pop("stack", "gqa"), **at)
    rounds = len(next(iter(metrics.values())))
    runs = [
        example.record(of, n, metrics={name: values[n] for name, values in metrics.items()})
        for n in range(rounds)
    ]
    (found,) = results(example.stored(of, *runs))
    return found


def _sides(
    example: ModuleType,
    n: int,
    changes: dict[int, float],
    cases: int = 20,
    metric: str = "tpot",
    seed: int = 1,
    noise: float = 0.01,
) -> tuple[list[Result], list[Result]]:
    """Both sides of a grid by batch: times share the drift of their round, head times change."""
    source = random.Random(seed)
    sides: tuple[list[Result], list[Result]] = ([], [])
    for batch in range(1, cases + 1):
        drift = [math.exp(source.gauss(0, 0.1)) for _ in range(n)]
        for side, change in ((sides[0], 0.0), (sides[1], changes.get(batch, 0.0))):
            values: list[float | None] = [
                1e6 * batch * (1 + change) * d * math.exp(source.gauss(0, noise)) for d in drift
            ]
            side.append(_result(example, {metric: values}, batch=batch))
    return sides


def _verdicts(told: Verdicts) -> dict[str, str]:
    return {row.subject.title: row.verdict for row in told.rows}


def test_planted_changes_are_found_in_both_directions_and_nothing_else(
    example_sweep: ModuleType,
) -> None:
    base, head = _sides(example_sweep, 10, {3: 0.06, 8: -0.06})
    told = _told(base, head)
    found = {title: v for title, v in _verdicts(told).items() if v in ("regressed", "improved")}
    assert found == {"gqa B3 P128 N64": "regressed", "gqa B8 P128 N64": "improved"}
    assert [row.subject.title for row in told.alarms] == ["gqa B3 P128 N64"]
    assert told.exit_code is ExitCode.NEGATIVE


@pytest.mark.parametrize("metric", ["tpot", "decode_throughput"])
def test_direction_is_the_metrics_own(metric: str, example_sweep: ModuleType) -> None:
    """airspeed-velocity/asv#1617, apache/groovy#2787: a fall of throughput is no improvement, and
    a rise alarms nobody; tested both ways for a time and for a rate."""
    base, head = _sides(example_sweep, 10, {3: 0.1, 8: -0.1}, metric=metric)
    found = _verdicts(_told(base, head, metrics=[metric]))
    up, down = found["gqa B3 P128 N64"], found["gqa B8 P128 N64"]
    assert (up, down) == (
        ("regressed", "improved") if metric == "tpot" else ("improved", "regressed")
    )


def test_a_metric_without_a_direction_is_refused_by_name() -> None:
    """airspeed-velocity/asv#1617: an unknown direction is an error, not a guess."""
    with pytest.raises(UsageError, match="intensity is neither better high nor low"):
        watched(["intensity"])
    with pytest.raises(UsageError, match="did you mean 'tpot'"):
        watched(["topt"])
    assert "intensity" not in watched()
    assert {"tpot", "ttft", "kernel_time", "state_bytes", "token_agreement"} <= set(watched())


def test_samples_within_a_process_are_no_evidence(example_sweep: ModuleType) -> None:
    """mui/mui-public#1712, MaterializeInc/materialize#38810: process medians 5 % apart, samples
    within a process 0.1 % apart. A test on samples calls most pairs different; on pairs of
    processes nothing is."""
    base, head = _sides(example_sweep, 5, {}, noise=0.05)
    assert Counter(_verdicts(_told(base, head)).values())["regressed"] == 0


def test_the_same_commit_twice_raises_no_alarm(example_sweep: ModuleType) -> None:
    """namecheap/fast_mail_parser#128, NVIDIA/warp#1142, sgl-project/sglang#21157,
    folo-rs/folo#429: 10 comparisons of nothing, 20 cases each, under drift; and what is found by
    luck is no more often worse than better."""
    found = Counter[str]()
    for seed in range(10):
        base, head = _sides(example_sweep, 6, {}, seed=seed)
        found.update(_verdicts(_told(base, head)).values())
    assert found["regressed"] + found["improved"] <= 1


def test_many_cells_of_nothing_do_not_fill_a_report(example_sweep: ModuleType) -> None:
    """pytorch/test-infra#7445: 589 of 10,344 cells "regressed" in one report. 120 cells of nothing
    but for 6 of 10 %: what is reported is those."""
    planted = dict.fromkeys(range(30, 120, 15), 0.1)
    base, head = _sides(example_sweep, 6, planted, cases=120)
    told = _told(base, head)
    assert {r.subject.title for r in told.alarms} == {f"gqa B{n} P128 N64" for n in planted}


def test_unlike_rows_are_refused_with_what_sets_them_apart(example_sweep: ModuleType) -> None:
    """sgl-project/sglang#39651: rows whose hidden state differs look alike and must not meet."""
    values: dict[str, list[float | None]] = {"tpot": [1e6, 1e6]}
    base = [
        _result(example_sweep, values, dtype="float32"),
        _result(example_sweep, values, batch=8, checkpoint_hash="a" * 64),
        _result(example_sweep, values, batch=4, threads=1),
        _result(example_sweep, values, batch=2),
        _result(example_sweep, values, batch=16, model="zoo/small-gqa"),
    ]
    head = [
        _result(example_sweep, values, dtype="bfloat16"),
        _result(example_sweep, values, batch=8, checkpoint_hash="b" * 64),
        _result(example_sweep, values, batch=4, threads=2),
        _result(example_sweep, values, batch=3),
        _result(example_sweep, values, batch=16, model="llama-3-8b"),
    ]
    told = _told(base, head)
    assert told.rows == ()
    why = [refusal.reason for refusal in told.refused]
    assert "dtype (float32 against bfloat16)" in why[0]
    assert "checkpoint (aaaaaaaaaaaa against bbbbbbbbbbbb)" in why[1]
    assert "number of threads (1 against 2)" in why[2]
    assert why[3] == "only the head has it"
    assert "model (zoo/small against llama-3-8b)" in why[4]
    assert (told.refused[5].title, why[5]) == ("gqa B2 P128 N64 (tiny, torch, float32)",
                                               "only the base has it")  # fmt: skip
    assert told.exit_code is ExitCode.NOTHING_MEASURED


def test_other_timers_and_other_options_are_unlike(example_sweep: ModuleType) -> None:
    of = example_sweep.case("gqa")
    sides = [
        results(example_sweep.stored(of, *[
            example_sweep.record(of, n, metrics={"tpot": 1e6}, telemetry=noted) for n in (0, 1)
        ]))
        for noted in ({}, {"timer": "CUDA events"})
    ]  # fmt: skip
    (refusal,) = _told(sides[0], sides[1]).refused
    assert "timer (the harness's clock against CUDA events)" in refusal.reason
    stack = of.composed.model_copy(
        update={"architecture": (of.composed.architecture[0].model_copy(
            update={"options": {"kv_heads": 4}}),)}
    )  # fmt: skip
    other = of.model_copy(update={"stack": stack})
    # A case hashes itself once; a copy with another stack needs the hash of its own.
    other = type(of).model_validate(other.model_dump())
    head = results(example_sweep.rounds(other, "tpot", [1e6, 1e6]))
    refusal = _told(sides[0], head).refused[0]
    assert "stack (gqa against gqa(kv_heads=4))" in refusal.reason


def test_means_are_of_ratios_over_common_cases_only(example_sweep: ModuleType) -> None:
    """Hoefler and Belli 2015, rules 1, 3 and 4: the arithmetic mean of times is ruled by the
    slowest case, and a case that one side lacks would change it. Twice as fast in one case, half as
    fast in the other is 1.0; absolute values stand beside each ratio."""
    slow, quick = [4e9, 4e9, 4e9], [1e6, 1e6, 1e6]
    base = [
        _result(example_sweep, {"tpot": list(slow)}, batch=1),
        _result(example_sweep, {"tpot": list(quick)}, batch=2),
        _result(example_sweep, {"tpot": list(quick)}, batch=4),
    ]
    head = [
        _result(example_sweep, {"tpot": [2 * t for t in slow]}, batch=1),
        _result(example_sweep, {"tpot": [t / 2 for t in quick]}, batch=2),
        _result(example_sweep, {"tpot": list(quick)}, batch=8),
    ]
    told = _told(base, head)
    (mean,) = told.summaries
    assert mean.ratio == pytest.approx(1.0)
    assert [mean.worst, mean.best] == pytest.approx([0.5, 2.0])
    assert mean.cases == 2
    assert mean.left_out == 2
    assert [(r.base, r.head) for r in told.rows] == [(4e9, 8e9), (1e6, 5e5)]


def test_sweeps_apart_yield_nominations_at_most(example_sweep: ModuleType) -> None:
    """microsoft/mssql-rs#435: runs of one session share its bias; a later one says otherwise."""
    base, head = _sides(example_sweep, 10, {3: 0.3, 8: -0.3})
    told = _told(base, head, APART)
    assert set(_verdicts(told).values()) == {"unknown"}
    assert {r.subject.title for r in told.rows if r.nominated} == {
        "gqa B3 P128 N64",
        "gqa B8 P128 N64",
    }
    assert told.exit_code is ExitCode.GOOD
    assert all("session effect" in row.reason for row in told.rows if row.nominated)


def test_counted_bytes_need_no_session(example_sweep: ModuleType) -> None:
    base = [_result(example_sweep, {"state_bytes": [100, 100], "peak_bytes": [100, 100]})]
    head = [_result(example_sweep, {"state_bytes": [200, 200], "peak_bytes": [200, 200]})]
    found = {row.subject.metric: row.verdict for row in _told(base, head, APART).rows}
    assert found == {"state_bytes": "regressed", "peak_bytes": "unknown"}


@pytest.mark.parametrize(
    ("before", "after", "verdict", "alarm"),
    [
        ([0, 0], [9, 9], "regressed", True),
        ([9, 9], [0, 0], "improved", False),
        ([0, 0], [0, 0], "same", False),
        ([0, 1], [9, 9], "unknown", False),
    ],
)
def test_zero_has_no_ratio_and_still_a_verdict(
    before: list[float],
    after: list[float],
    verdict: str,
    alarm: bool,
    example_sweep: ModuleType,
) -> None:
    base = [_result(example_sweep, {"state_bytes": list(before)})]
    head = [_result(example_sweep, {"state_bytes": list(after)})]
    (row,) = _told(base, head).rows
    assert (row.verdict, row.alarm, row.ratio) == (verdict, alarm, None)
    assert row.reason


def test_a_rate_that_falls_to_zero_is_found_by_its_signs(example_sweep: ModuleType) -> None:
    """No ratio and no logarithm: seven pairs that all fell are 1 in 128, three are 1 in 8."""
    for n, verdict in ((7, "regressed"), (3, "unknown")):
        base = [_result(example_sweep, {"goodput": [5.0 + i / 10 for i in range(n)]})]
        head = [_result(example_sweep, {"goodput": [0.0] * n})]
        (row,) = _told(base, head).rows
        assert (row.verdict, row.nominated) == (verdict, verdict == "unknown")
    assert _told(base, head, APART).rows[0].verdict == "unknown"


def _failed(example: ModuleType, status: Any, reason: str) -> Result:
    of = example.case("gqa")
    (found,) = results(example.stored(of, example.record(of, 0, status, reason=reason)))
    return found


@pytest.mark.parametrize(
    ("status", "alarm"),
    [("gate_failed", True), ("crashed", True), ("oom", True), ("unsupported", True),
     ("invalid", False), ("skipped", False)],
)  # fmt: skip
def test_a_head_that_broke_alarms_and_one_that_was_disturbed_does_not(
    status: str, alarm: bool, example_sweep: ModuleType
) -> None:
    """NVIDIA/nvbench#231, flashinfer-ai/flashinfer#2899: a throttled run is kept as invalid, told,
    and neither counted as slow nor dropped without a word."""
    good = _result(example_sweep, {"tpot": [1e6, 1e6]})
    told = _told([good], [_failed(example_sweep, status, "throttled: hot")])
    (row,) = told.rows
    assert (row.verdict, row.alarm, row.ratio) == ("invalid", alarm, None)
    assert f"the head is {status}: throttled: hot" in row.reason
    assert told.exit_code is (ExitCode.NEGATIVE if alarm else ExitCode.NOTHING_MEASURED)


def test_a_base_that_failed_accuses_nobody(example_sweep: ModuleType) -> None:
    good = _result(example_sweep, {"tpot": [1e6, 1e6]})
    bad = _failed(example_sweep, "oom", "too large")
    assert [(r.verdict, r.alarm) for r in _told([bad], [good]).rows] == [("invalid", False)]
    assert [(r.verdict, r.alarm) for r in _told([bad], [bad]).rows] == [("invalid", False)]
    untried = _failed(example_sweep, "unsupported", "no fp8")
    assert _told([untried], [untried]).rows == ()


def test_everything_failed_is_not_an_empty_success(example_sweep: ModuleType) -> None:
    """sgl-project/sglang#4533, edtechre/pybroker#287: nothing measured is neither good nor a
    regression; it has an exit code of its own."""
    bad = _failed(example_sweep, "crashed", "signal 11")
    assert _told([bad], [bad]).exit_code is ExitCode.NOTHING_MEASURED
    assert _told([], []).exit_code is ExitCode.NOTHING_MEASURED
    assert len(set(ExitCode)) == 5


def test_undefined_on_both_sides_is_no_row_and_lost_on_one_is_told(
    example_sweep: ModuleType,
) -> None:
    """sgl-project/sglang#1585: one token has no time per token; the row is valid without it."""
    base = _result(example_sweep, {"ttft": [1e6, 1e6, 1e6], "tpot": [None] * 3})
    assert {r.subject.metric for r in _told([base], [base]).rows} == {"ttft"}
    had = _result(example_sweep, {"ttft": [1e6, 1e6, 1e6], "tpot": [2e6] * 3})
    lost = {r.subject.metric: r for r in _told([had], [base]).rows}["tpot"]
    assert (lost.verdict, lost.alarm, lost.base, lost.head) == ("invalid", True, 2e6, None)
    gained = {r.subject.metric: r for r in _told([base], [had]).rows}["tpot"]
    assert (gained.verdict, gained.alarm) == ("invalid", False)


def test_predictions_are_not_compared(example_sweep: ModuleType) -> None:
    from dataclasses import replace

    made = replace(_result(example_sweep, {"tpot": [1e6, 1e6]}), source="predicted")
    assert _told([made], [made]).rows == ()


def test_a_silent_fallback_is_told(example_sweep: ModuleType) -> None:
    of = example_sweep.case("gqa")
    sides = [
        results(example_sweep.stored(of, *[
            example_sweep.record(of, n, metrics={"tpot": 1e6}, implementations={"attention": by})
            for n in range(3)
        ]))
        for by in ("triton", "torch")
    ]  # fmt: skip
    assert "attention was triton and is torch" in _told(sides[0], sides[1]).rows[0].reason


def test_unknown_rows_say_what_would_have_shown_and_how_many_rounds_it_takes(
    example_sweep: ModuleType,
) -> None:
    base, head = _sides(example_sweep, 4, {}, noise=0.04)
    told = _told(base, head)
    row = next(r for r in told.rows if r.verdict == "unknown")
    assert row.smallest is not None
    assert f"show changes of {100 * row.smallest:.2g} % and more" in row.reason
    needed = {need.change: need.usual for need in told.needs if need.metric == "tpot"}
    assert set(needed) == {0.02, 0.03, 0.05, 0.1}
    assert (needed[0.03] or 0) > (needed[0.1] or 0) > 4
    assert undecided(told) >= {row.subject.case_hash}


def test_ratios_are_of_the_rounds_that_both_have(example_sweep: ModuleType) -> None:
    of = example_sweep.case("gqa")

    def side(values: dict[int, float]) -> list[Result]:
        runs = [example_sweep.record(of, n, metrics={"tpot": v}) for n, v in values.items()]
        return results(example_sweep.stored(of, *runs))

    (row,) = _told(side({0: 1e6, 1: 2e6, 2: 9e9}), side({0: 2e6, 1: 4e6})).rows
    assert row.n == 2
    assert row.ratio == pytest.approx(0.5)
    assert row.base == pytest.approx(math.sqrt(2) * 1e6)
    assert row.head == pytest.approx(math.sqrt(8) * 1e6)
    (apart,) = _told(side({0: 1e6}), side({1: 1e6})).rows
    assert (apart.verdict, apart.reason) == (
        "invalid",
        "the two were never measured in the same round",
    )


def test_a_verdict_without_a_ratio_must_say_why(example_sweep: ModuleType) -> None:
    base, head = _sides(example_sweep, 3, {}, cases=1)
    row = _told(base, head).rows[0]
    with pytest.raises(ValueError, match="says why"):
        Verdict(subject=row.subject, verdict="invalid")
    with pytest.raises(ValueError, match="only nominated"):
        Verdict(subject=row.subject, verdict="regressed", reason="x", nominated=True)
