"""Predictions beside a sweep: a sweep row a device, found again, never mixed with measurements."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.analysis.results import results
from harness.hardware import catalogue
from harness.hardware.detection import detect
from harness.hardware.environment import environment
from harness.predict.rows import record
from harness.predict.target import Target, by_datasheet
from harness.report.predicted import predicted_grid
from harness.report.sheet import sheet
from harness.store import SweepStart, open_reader, open_store
from harness.suite import Planned, Suite, cases, document
from harness.sweep.predicted import predictions, store_predictions

SUITE = """\
suite: beside
stacks: [mha, gqa]
model: llama-2-13b
workload: {kind: generate, batch: [1, 64], prompt_tokens: 1024, new_tokens: [1, 16]}
dtype: bfloat16
"""
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def planned() -> list[Planned]:
    return cases(Suite.of(document.read(SUITE, "beside.yaml")), "cuda")


def target(name: str) -> Target:
    return by_datasheet(name, catalogue.shipped()[name])


def start() -> SweepStart:
    return SweepStart(
        suite="beside", suite_hash="0" * 64, suite_text=SUITE, argv=("sweep", "beside"), seed=1,
        started_at=AT, hardware=detect("cpu"), environment=environment(),
    )  # fmt: skip


def test_a_prediction_is_a_run_with_bounds_and_what_binds() -> None:
    entry = planned()[1]
    run = record(entry, target("h100-sxm"), 3, AT)
    assert (run.status, run.reason, run.order_slot) == ("predicted", None, 3)
    assert run.telemetry == {
        "hardware": "h100-sxm", "binds": {"prefill": "compute", "decode": "memory"}
    }  # fmt: skip
    found = {metric.name: metric for metric in run.metrics}
    tpot = found["tpot"]
    assert tpot.value is not None
    assert tpot.ci_low is not None
    assert tpot.ci_high is not None
    assert tpot.ci_low < tpot.value < tpot.ci_high
    assert found["energy_per_token"].value is None
    assert "at most" in (found["energy_per_token"].null_reason or "")
    one = record(planned()[0], target("h100-sxm"), 0, AT)
    undefined = {m.name: m.null_reason for m in one.metrics if m.value is None}
    assert undefined["tpot"] == "one new token has no time between tokens"


def test_what_does_not_fit_is_predicted_to_run_out_of_memory() -> None:
    large = next(p for p in planned() if p.case.title == "mha B64 P1024 N16")
    run = record(large, target("h100-sxm"), 0, AT)
    assert (run.status, run.metrics) == ("oom_predicted", [])
    assert "and h100-sxm has 80 GB" in (run.reason or "")
    assert record(large, target("h200-sxm"), 0, AT).status == "predicted"


def test_a_dtype_without_a_rate_is_unsupported() -> None:
    run = record(planned()[0], target("t4"), 0, AT)
    assert (run.status, run.metrics) == ("unsupported", [])
    assert run.reason == "t4 has no rate for bfloat16, only for float16, int8, float32"


def test_predictions_are_stored_once_and_found_from_the_measured_sweep(tmp_path: Path) -> None:
    url, began, entries = str(tmp_path / "x.db"), start(), planned()
    targets = [target("h100-sxm"), target("b200")]
    with open_store(url) as store:
        for _ in range(2):
            store_predictions(store, began, targets, entries)
        sweep_id = store.begin_sweep(began)
        store.end_sweep(sweep_id, "complete")
    with open_reader(url) as reader:
        assert len(reader.sweeps()) == 3
        last = reader.sweep("last")
        assert last.id == sweep_id, "the measured one stays the last"
        beside = dict(predictions(reader, last))
        assert set(beside) == {"h100-sxm", "b200"}
        assert [run.source for run in beside["b200"]] == ["predicted"] * len(entries)
        hardware = {row.hardware.catalogue_name for row in reader.sweeps()}
        assert hardware == {None, "h100-sxm", "b200"}
        first = entries[1].case.hash
        points = reader.history(first, "tpot", source="predicted")
        assert len({point.hardware_hash for point in points}) == 2


def test_a_report_shows_them_beside_what_was_measured(tmp_path: Path) -> None:
    url, began, entries = str(tmp_path / "x.db"), start(), planned()
    with open_store(url) as store:
        store_predictions(store, began, [target("h100-sxm")], entries)
    with open_reader(url) as reader:
        row = reader.sweep("last")
        found = results(reader.runs(row.id))
    told = sheet(row, found)
    shown = {line.stack: line for block in told.blocks for line in block.lines}
    assert " ms +-" in shown["gqa"].cells[0]
    assert told.failures or told.untried or told.blocks
    grid = predicted_grid(found, {"h100-sxm": found}, "tpot")
    assert grid is not None
    assert grid.header == ("case", "measured here", "h100-sxm")
    assert any("[" in row[-1] for row in grid.rows), "with its bounds"
    assert any(row[-1] == "oom_predicted" for row in grid.rows)
    assert predicted_grid(found, {}, "tpot") is None


@pytest.mark.parametrize("name", ["h100-sxm", "a100-80"])
def test_a_device_on_which_nothing_was_fitted_has_wider_bounds(name: str) -> None:
    run = record(planned()[1], target(name), 0, AT)
    tpot = next(metric for metric in run.metrics if metric.name == "tpot")
    assert tpot.value is not None
    assert tpot.ci_high is not None
    factor = tpot.ci_high / tpot.value
    assert factor == pytest.approx(1.342 if name == "h100-sxm" else 1.184, rel=0.01)
