"""What a report says, before any layout: on the made-up sweep, whose answers are known."""

from types import ModuleType

import pytest

from harness.analysis.results import Result, results
from harness.errors import NothingMeasuredError, UsageError
from harness.hardware.ceilings import Ceilings, InForce
from harness.report.conditions import Outline, conditions, outline
from harness.report.sheet import Sheet, sheet
from harness.store.rows import StoredRun


@pytest.fixture(scope="module")
def found(example_sweep: ModuleType) -> list[Result]:
    return results(example_sweep.runs())


@pytest.fixture(scope="module")
def told(example_sweep: ModuleType, found: list[Result]) -> Sheet:
    return sheet(example_sweep.row(), found)


def test_the_baseline_is_first_at_every_point(told: Sheet) -> None:
    assert [block.lines[0].stack for block in told.blocks] == ["mha"] * 6
    assert all(block.lines[0].is_baseline for block in told.blocks)
    assert all(block.lines[0].cells[1] == "baseline" for block in told.blocks)
    assert [line.stack for line in told.blocks[0].lines] == ["mha", "gqa", "mha+recompute"]


def test_points_stand_in_order_of_batch_and_prompt(told: Sheet) -> None:
    assert [block.title for block in told.blocks][:4] == [
        "batch 1, prompt 128, new 64",
        "batch 1, prompt 512, new 64",
        "batch 1, prompt 1024, new 64",
        "batch 8, prompt 128, new 64",
    ]


def test_a_failed_case_stands_at_its_point_without_numbers_and_below_with_its_reason(
    told: Sheet,
) -> None:
    failed = [line for block in told.blocks for line in block.lines if not line.cells]
    assert [(line.stack, line.status) for line in failed] == [
        ("gqa", "gate_failed"),
        ("mha+recompute", "oom"),
    ]
    assert [row[:2] for row in told.failures] == [
        ("gqa B8 P512 N64", "gate_failed"),
        ("mha+recompute B8 P1024 N64", "oom"),
    ]
    assert "regret 0.39" in told.failures[0][2]


def test_conditions_name_everything_a_number_depends_on(told: Sheet) -> None:
    text = " ".join(value for _, value in told.conditions)
    for word in (
        "decode", "2026-11-30 21:04 UTC", "Example CPU 9000", "x86_64", "2 cores", "torch 2.13.0",
        "triton 3.7.1", "Python 3.11.7", "4a3ceac9c182", "uncommitted changes", "tiny", "float32",
        "1 thread", "cold cache", "3 processes a case", "20261130", "harness sweep",
    ):  # fmt: skip
        assert word in text


def test_the_ratio_can_be_of_another_metric_and_against_another_stack(
    example_sweep: ModuleType, found: list[Result]
) -> None:
    other = sheet(example_sweep.row(), found, baseline="gqa", metric="throughput")
    assert other.titles[:2] == ("tokens/s", "vs gqa")
    assert other.blocks[0].lines[0].stack == "gqa"
    assert other.columns.count("throughput") == 1


def test_a_point_without_its_baseline_says_so(
    example_sweep: ModuleType, found: list[Result]
) -> None:
    other = sheet(example_sweep.row(), found, baseline="gqa")
    lines = [
        line for block in other.blocks if "8, prompt 512" in block.title for line in block.lines
    ]
    assert {line.stack: line.cells[1:2] for line in lines}["mha"] == ("-",)
    alone = [r for r in found if r.case.label != "gqa" or r.case.generated.batch == 1]
    lines = [x for b in sheet(example_sweep.row(), alone, baseline="gqa").blocks for x in b.lines]
    assert any(line.cells[1:2] == ("no baseline",) for line in lines)


def test_unknown_names_are_one_sentence(example_sweep: ModuleType, found: list[Result]) -> None:
    with pytest.raises(UsageError, match="unknown stack 'gqaa'; did you mean 'gqa'"):
        sheet(example_sweep.row(), found, baseline="gqaa")
    with pytest.raises(UsageError, match="unknown metric 'topt'"):
        sheet(example_sweep.row(), found, metric="topt")


def test_a_sweep_without_a_run_is_nothing_measured(example_sweep: ModuleType) -> None:
    with pytest.raises(NothingMeasuredError, match="no run yet"):
        sheet(example_sweep.row(), [])


def test_a_sweep_in_which_nothing_worked_still_tells_why(example_sweep: ModuleType) -> None:
    of = example_sweep.case("mha")
    runs = example_sweep.stored(of, example_sweep.record(of, 1, "crashed", reason="signal 11"))
    told = sheet(example_sweep.row(), results(runs))
    assert told.failures == (("mha B1 P128 N64", "crashed", "signal 11"),)
    assert "no case was measured" in dict(told.conditions)["rounds"]


def test_what_differs_besides_the_workload_is_named_at_each_point(
    example_sweep: ModuleType,
) -> None:
    runs: list[StoredRun] = []
    for fields in ({"dtype": "float32"}, {"dtype": "bfloat16"}):
        of = example_sweep.case("mha", **fields)
        runs += example_sweep.rounds(of, "tpot", [1e6, 1e6], first_id=len(runs) + 1)
    told = sheet(example_sweep.row(), results(runs))
    assert [block.title for block in told.blocks] == [
        "batch 1, prompt 128, new 64, bfloat16",
        "batch 1, prompt 128, new 64, float32",
    ]
    assert "dtype bfloat16 | float32" in dict(told.conditions)["cases"]


def test_unsupported_and_skipped_cases_are_no_failures(example_sweep: ModuleType) -> None:
    good, other = example_sweep.case("mha"), example_sweep.case("gqa")
    runs = [
        *example_sweep.rounds(good, "tpot", [1e6, 1e6]),
        *example_sweep.stored(
            other, example_sweep.record(other, 1, "unsupported", reason="no fp8"), first_id=5
        ),
    ]
    told = sheet(example_sweep.row(), results(runs))
    assert told.failures == ()
    assert told.untried == (("gqa B1 P128 N64", "unsupported", "no fp8"),)
    assert [line.stack for block in told.blocks for line in block.lines] == ["mha"]


def test_one_token_has_no_time_per_token_so_the_ratio_is_of_the_first(
    example_sweep: ModuleType,
) -> None:
    of = example_sweep.case("mha", new=1)
    runs = [example_sweep.record(of, n, metrics={"tpot": None, "ttft": 5e6}) for n in (1, 2)]
    told = sheet(example_sweep.row(), results(example_sweep.stored(of, *runs)))
    assert told.metric == "ttft"


def test_the_findings_hold_both_slopes_and_the_state(told: Sheet) -> None:
    assert [grid.title.endswith(f"batch {n}") for grid, n in zip(told.slopes, (1, 8), strict=True)]
    rows = {row[0]: row for row in told.slopes[0].rows}
    assert "near flat" in rows["mha"][3]
    assert rows["mha+recompute"][2].startswith("+21.")
    assert any("to the byte in all 16 cases" in text for text in told.findings)
    assert any("gqa holds 4.00 times less state" in text for text in told.findings)


@pytest.mark.parametrize("text", ["", "[1, 2", "just words", "- a\n- b", "stacks: [gone]", "\x00"])
def test_any_stored_suite_text_is_read_without_an_error(
    text: str, example_sweep: ModuleType, found: list[Result]
) -> None:
    row = example_sweep.row().model_copy(update={"suite_text": text})
    assert outline(row) == Outline()
    # Without the suite's word the first label of the alphabet is the baseline.
    assert sheet(row, found).baseline == "gqa"


@pytest.mark.parametrize(
    ("argv", "baseline", "rounds"),
    [
        (["sweep", "x.yaml"], "mha", 3),
        (["sweep", "x.yaml", "--set", "baseline=gqa", "--set=measure.rounds=1"], "gqa", 1),
        (["sweep", "x.yaml", "--profile", "cuda"], "mha+recompute", 3),
    ],
)
def test_the_baseline_is_the_one_that_the_sweep_was_started_with(
    argv: list[str], baseline: str, rounds: int, example_sweep: ModuleType
) -> None:
    text = example_sweep.SUITE_TEXT + "profiles: {cuda: {baseline: recompute + mha}}\n"
    row = example_sweep.row().model_copy(update={"argv": tuple(argv), "suite_text": text})
    told = outline(row)
    assert (told.baseline, told.rounds) == (baseline, rounds)
    assert told.stacks == ("mha", "gqa", "mha+recompute")


def test_conditions_of_a_gpu_and_of_no_checkout(
    example_sweep: ModuleType, found: list[Result]
) -> None:
    row = example_sweep.row()
    gpu = row.hardware.model_copy(update={"kind": "cuda", "name": "H100", "count": 1})
    environment = row.environment.model_copy(update={"power_limit_w": 700.0, "driver": "580.1"})
    changed = row.model_copy(
        update={"hardware": gpu, "environment": environment, "revision": None, "ended_at": None}
    )
    told = dict(conditions(changed, found))
    assert told["hardware"].startswith("H100")
    assert "host Example CPU" in told["hardware"]
    assert told["power"] == "limit 700 W"
    assert "not a git checkout" in told["code"]
    assert "no end recorded" in told["measured"]
    assert "driver 580.1" in told["versions"]


def test_limits_in_force_stand_among_the_conditions(
    example_sweep: ModuleType, found: list[Result]
) -> None:
    row = example_sweep.row()
    assert "limits" not in dict(conditions(row, found)), "an older sweep did not record them"
    limits = Ceilings(bandwidth_bytes_per_s=16.4e9, flops_per_s={"float32": 218e9}, source="mine")
    kept = row.model_copy(update={"ceilings": InForce(measured={1: limits})})
    told = dict(conditions(kept, found))["limits"]
    assert told == "memory 16.4 GB/s, float32 218 GFLOP/s, mine, 1 thread"
