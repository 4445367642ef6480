"""One run, whole."""

import io
from types import ModuleType

from rich.console import Console

from harness.hardware.ceilings import Ceilings, InForce
from harness.report.run_view import print_run
from harness.store.rows import StoredRun


def _shown(example: ModuleType, run: StoredRun, width: int = 100) -> str:
    out = io.StringIO()
    print_run(Console(file=out, width=width), run, example.row())
    return out.getvalue()


def test_a_good_run_shows_metrics_gates_samples_and_telemetry(example_sweep: ModuleType) -> None:
    run = next(r for r in example_sweep.runs() if r.record.status == "ok")
    text = _shown(example_sweep, run)
    expected = ("status", "ok", "tpot", "undefined", "too few gaps", "numeric", "step_gap")
    for word in (*expected, "precision_wanted", "4a3ceac9c182", "random weights", "architecture"):
        assert word in text
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 100


def test_a_bad_run_shows_its_reason_and_the_end_of_stderr(example_sweep: ModuleType) -> None:
    of = example_sweep.case("mha")
    record = example_sweep.record(
        of, 2, "crashed", reason="signal 11", stderr_tail="first [red]line\nSegmentation fault\n"
    )
    text = _shown(example_sweep, StoredRun(12, of, record))
    assert "run 12: mha B1 P128 N64" in text
    assert "signal 11" in text
    assert "  first [red]line\n  Segmentation fault\n" in text
    assert "Metrics" not in text


def test_a_failed_gate_is_loud(example_sweep: ModuleType) -> None:
    run = next(r for r in example_sweep.runs() if r.record.status == "gate_failed")
    text = _shown(example_sweep, run)
    assert "NO" in text
    assert "regret of token 17 of request 3" in text


def test_a_metric_of_another_registry_is_shown_with_its_plain_number(
    example_sweep: ModuleType,
) -> None:
    of = example_sweep.case("mha")
    record = example_sweep.record(of, metrics={"from_the_future": 12.5})
    assert "12.5" in _shown(example_sweep, StoredRun(1, of, record))


def test_the_limits_in_force_are_shown(example_sweep: ModuleType) -> None:
    of = example_sweep.case("mha")
    limits = Ceilings(bandwidth_bytes_per_s=16.4e9, flops_per_s={"float32": 218e9}, source="mine")
    row = example_sweep.row().model_copy(update={"ceilings": InForce(measured={1: limits})})
    out = io.StringIO()
    print_run(Console(file=out, width=100), StoredRun(1, of, example_sweep.record(of)), row)
    assert "memory 16.4 GB/s, float32 218 GFLOP/s, mine" in out.getvalue()
