"""Notes appear exactly where their cause is."""

from types import ModuleType
from typing import Any

import pytest

from harness.analysis.results import Result, results
from harness.report.notes import notes
from harness.run import GateResult
from harness.store.rows import SweepRow

GATE = GateResult(name="numeric", passed=True, observed=0.1, bound=1.0, unit="")


def _clean(row: SweepRow) -> SweepRow:
    assert row.revision is not None
    revision = row.revision.model_copy(update={"dirty": False, "diff_hash": ""})
    return row.model_copy(update={"revision": revision})


def _results(example: ModuleType, **fields: Any) -> list[Result]:
    of = example.case("mha")
    fields.setdefault("gates", [GATE])
    fields.setdefault("implementations", {"attention": "torch"})
    made = [example.record(of, n, metrics={"tpot": 1e6}, **fields) for n in (1, 2, 3)]
    return results(example.stored(of, *made))


def test_a_clean_sweep_needs_no_note(example_sweep: ModuleType) -> None:
    assert notes(_clean(example_sweep.row()), _results(example_sweep), 3) == []


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"gates": []}, "No correctness gate ran for 1 of 1 cases"),
        ({"telemetry": {"gates_off": ["numeric"]}}, "Gates switched off: numeric (1 cases)"),
        ({"implementations": {"attention": "triton"}}, "attention on triton instead of torch"),
        ({"telemetry": {"timed": {"cpu_share": 0.61}}}, "61% of its time"),
        ({"telemetry": {"warm_up": {"stable": False}}}, "still changing speed after warm-up"),
        (
            {"telemetry": {"sampling": {
                "stopped": "time", "precision": 0.061, "precision_wanted": 0.02}}},
            "before the precision of +-2% was reached (worst: mha B1 P128 N64, +-6.1%)",
        ),
        (
            {"telemetry": {"sampling": {
                "stopped": "time", "precision": None, "precision_wanted": 0.02}}},
            "too few samples to say",
        ),
    ],
)  # fmt: skip
def test_each_cause_has_its_note(
    fields: dict[str, Any], word: str, example_sweep: ModuleType
) -> None:
    (note,) = notes(_clean(example_sweep.row()), _results(example_sweep, **fields), 3)
    assert word in note


@pytest.mark.parametrize(
    "telemetry",
    [
        {"sampling": {"stopped": "precision", "precision": 0.01, "precision_wanted": 0.02}},
        {"sampling": {"stopped": "time", "precision": 0.01, "precision_wanted": 0.02}},
        {"timed": {"cpu_share": None}, "gates_off": [], "warm_up": {"stable": True}},
        {"timed": "odd", "gates_off": "odd", "warm_up": 3, "sampling": None},
    ],
    ids=["precise", "precise in the last moment", "nothing wrong", "another format"],
)
def test_no_cause_no_note(telemetry: dict[str, Any], example_sweep: ModuleType) -> None:
    found = _results(example_sweep, telemetry=telemetry)
    assert notes(_clean(example_sweep.row()), found, 3) == []


def test_an_interrupted_sweep_says_how_to_continue(example_sweep: ModuleType) -> None:
    row = _clean(example_sweep.row()).model_copy(update={"status": "interrupted"})
    (note,) = notes(row, _results(example_sweep), 3)
    assert "harness sweep suites/decode.yaml --resume" in note


def test_fewer_rounds_than_planned(example_sweep: ModuleType) -> None:
    (note,) = notes(_clean(example_sweep.row()), _results(example_sweep), 5)
    assert "1 of 1 cases have fewer than the 5 rounds" in note


def test_uncommitted_changes(example_sweep: ModuleType) -> None:
    (note,) = notes(example_sweep.row(), _results(example_sweep), 3)
    assert "uncommitted changes" in note
