"""Compiled kernels as results: a series for each function, configuration and target."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness import cli
from harness.analysis.results import results
from harness.aot.figures import Compiled, Figures, UnitName
from harness.aot.gate import judge
from harness.hardware.environment import environment
from harness.hardware.identity import RevisionRow
from harness.kernel import Claims
from harness.metrics import METRICS
from harness.report.sheet import sheet
from harness.run import GateResult
from harness.store import SweepRow, open_reader, open_store
from harness.sweep.static import case_of, latest, store_compiled

FIGURES = Figures(
    registers=168, spill_bytes=0, shared_bytes=39168, warps=4, occupancy=0.1875,
    limited_by="registers", instructions=1234, wide_loads=33, narrow_loads=3, async_copies=35,
    tensor_core={"mma": 32}, local_accesses=0, operands={"k": {128: 16}, "v": {128: 16}},
)  # fmt: skip
CLAIMS = Claims(vector_loads=("k", "v"), tensor_cores=True)
Judged = list[tuple[Compiled, list[GateResult]]]


def compiled(target: str = "sm_90", **changes: object) -> Compiled:
    fields: dict[str, object] = {
        "unit": UnitName(kernel="decode_attention", config=0, target=target, function="_attend"),
        "title": "B64 splits 4 bfloat16",
        "sizes": {"B": 64, "S": 8192},
        "options": {"splits": 4},
        "dtype": "bfloat16",
        "figures": FIGURES,
    }
    return Compiled.model_validate(fields | changes)


def stored(folder: Path, *each: Compiled) -> str:
    judged: Judged = [(one, judge(one, CLAIMS)) for one in each]
    with open_store(str(folder / "static.db")) as store:
        store_compiled(store, judged, environment(), None, ["kernels", "compile"])
    return str(folder / "static.db")


def test_figures_are_metrics_of_a_case_on_target_hardware(tmp_path: Path) -> None:
    with open_reader(stored(tmp_path, compiled())) as reader:
        (sweep,) = reader.sweeps()
        (run,) = reader.runs(sweep.id)
    assert (sweep.hardware.name, sweep.hardware.kind) == ("target:sm_90", "target")
    assert (run.source, run.record.status) == ("static", "ok")
    found = {metric.name: metric.value for metric in run.record.metrics}
    assert found["registers"] == 168
    assert found["tensor_core_instructions"] == 32
    assert found["wide_load_share"] == 33 / 36
    assert set(found) <= set(METRICS)
    assert all(gate.passed for gate in run.record.gates)


def test_a_red_gate_keeps_the_evidence_and_carries_no_metric(tmp_path: Path) -> None:
    spilled = FIGURES.model_copy(update={"spill_bytes": 48})
    with open_reader(stored(tmp_path, compiled(figures=spilled))) as reader:
        (run,) = reader.runs(1)
    assert (run.record.status, run.record.metrics) == ("gate_failed", [])
    assert run.record.reason is not None
    assert "decode_attention _attend on sm_90" in run.record.reason
    assert "48 bytes a thread" in run.record.reason
    assert run.record.telemetry["figures"]["spill_bytes"] == 48


def test_options_and_function_tell_series_apart_and_targets_share_a_case() -> None:
    one = case_of(compiled())
    other_unit = UnitName(kernel="decode_attention", config=0, target="sm_90", function="_merge")
    assert one.hash == case_of(compiled(target="sm_80")).hash
    assert one.hash != case_of(compiled(options={"splits": 1})).hash
    assert one.hash != case_of(compiled(unit=other_unit)).hash


def test_the_newest_of_each_target_is_listed_and_none_is_the_last_measurement(
    tmp_path: Path,
) -> None:
    better = FIGURES.model_copy(update={"registers": 96})
    stored(tmp_path, compiled(), compiled(target="gfx942"))
    db = stored(tmp_path, compiled(figures=better))
    with open_reader(db) as reader:
        newest = latest(reader)
        assert {target: len(runs) for target, runs in newest.items()} == {"sm_90": 1, "gfx942": 1}
        assert newest["sm_90"][0].record.telemetry["figures"]["registers"] == 96
    told = CliRunner().invoke(cli.build(), ["list", "kernels", "--db", db]).output
    line = next(line for line in told.splitlines() if line.startswith("decode_attention"))
    assert "12 of 12" in line
    assert "sm_90 96, gfx942 168" in line


def test_history_holds_a_figure_over_revisions(tmp_path: Path) -> None:
    more = FIGURES.model_copy(update={"registers": 200})
    stored(tmp_path, compiled())
    with open_reader(stored(tmp_path, compiled(figures=more))) as reader:
        points = reader.history(case_of(compiled()).hash, "registers", source="static")
    assert [point.value for point in points] == [168, 200]


def test_a_stored_target_reads_as_a_report(tmp_path: Path) -> None:
    unfit = compiled(target="sm_90", options={"splits": 1}, figures=None, unsupported="too old")
    with open_reader(stored(tmp_path, compiled(), unfit)) as reader:
        sweep: SweepRow = reader.sweep(1)
        told = sheet(sweep, results(reader.runs(1)))
    assert dict(told.conditions)["hardware"].startswith("target:sm_90")


def night(db: str, commit: str, *each: Compiled) -> None:
    """What was compiled at a revision, as a night of the history."""
    at = RevisionRow(
        repo="r", commit=commit * 40, parent=None, branch="main", committed_at=datetime.now(UTC),
        dirty=False, diff_hash="",
    )  # fmt: skip
    judged: Judged = [(one, judge(one, CLAIMS)) for one in each]
    with open_store(db) as store:
        store_compiled(store, judged, environment(), at, ["kernels", "compile"])


def told(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli.build(), [*arguments], env={"COLUMNS": "200"})
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("planted", "metric"),
    [
        ({"registers": 200}, "registers"),
        ({"local_accesses": 12}, "local_accesses"),  # from none: a change without a ratio
        ({"wide_loads": 20, "narrow_loads": 16}, "wide_load_share"),
    ],
)
def test_a_planted_change_of_code_is_a_regression(
    tmp_path: Path, planted: dict[str, int], metric: str
) -> None:
    """Held against the previous revision by the commands that hold timings."""
    db, worse = str(tmp_path / "static.db"), FIGURES.model_copy(update=planted)
    for commit in "ab":
        night(db, commit, compiled(), compiled(target="gfx942"))
    assert told("regress", "--db", db, "--dry-run")[0] == 0
    night(db, "c", compiled(figures=worse), compiled(target="gfx942"))
    code, text = told("regress", "--db", db)
    (line,) = [line for line in text.splitlines() if line.endswith("regressed")]
    assert code == 1
    assert "_attend, target:sm_90" in line, "of two targets the row says which"
    assert metric in line
    code, text = told("compare", "3", "5", "--db", db)
    assert code == 1
    changed = [line for line in text.splitlines() if line.endswith("regressed")]
    assert any(metric in line for line in changed)
    # The same code compiles to the same figures: nothing to report.
    assert told("compare", "1", "3", "--db", db)[0] == 0


def test_a_planted_spill_is_a_gate_that_turned_red(tmp_path: Path) -> None:
    db = str(tmp_path / "static.db")
    other = compiled(options={"splits": 1})
    spilled = compiled(figures=FIGURES.model_copy(update={"spill_bytes": 48}))
    for commit in "ab":
        night(db, commit, compiled(), other)
    night(db, "c", spilled, other)
    code, text = told("regress", "--db", db)
    assert code == 1
    assert "48 bytes a thread" in text
