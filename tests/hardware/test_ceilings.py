"""Limits of a device: arithmetic, a real short measurement, and how they are kept."""

import time

import pytest

from harness.errors import InfrastructureError
from harness.hardware.calibration import calibrate, stored, with_ceilings
from harness.hardware.ceilings import Ceilings
from harness.hardware.identity import HardwareRow

H100 = Ceilings(bandwidth_bytes_per_s=3.35e12, flops_per_s={"bfloat16": 989e12}, source="datasheet")


def test_ridge_of_an_h100_is_the_lectures() -> None:
    assert H100.ridge("bfloat16") == pytest.approx(295, abs=0.5)
    assert H100.ridge("float8") is None


def test_bytes_beyond_the_cache_move_at_memorys_rate() -> None:
    ceilings = Ceilings(
        bandwidth_bytes_per_s=10.0,
        flops_per_s={},
        source="made up",
        cache_bandwidth_bytes_per_s=100.0,
        cache_bytes=1000,
    )
    assert ceilings.seconds_to_move(500) == 5
    assert ceilings.seconds_to_move(1500) == 10 + 50


def test_what_an_unmeasured_cache_may_hold_moves_in_no_time() -> None:
    ceilings = H100.model_copy(update={"cache_bytes": 50_000_000})
    assert ceilings.seconds_to_move(50_000_000) == 0
    assert ceilings.seconds_to_move(3.35e12 + 50_000_000) == pytest.approx(1)


def test_a_dtype_without_a_peak_bounds_nothing() -> None:
    assert H100.seconds_to_compute(1e15, "float32") == 0


@pytest.fixture(scope="module")
def measured() -> Ceilings:
    return calibrate("cpu", 1, ("float32",))


def test_measured_ceilings_of_this_machine(measured: Ceilings) -> None:
    assert measured.source == "measured"
    assert set(measured.flops_per_s) == {"float32"}
    assert measured.cache_bandwidth_bytes_per_s is not None
    assert measured.cache_bandwidth_bytes_per_s >= measured.bandwidth_bytes_per_s > 1e8
    assert measured.flops_per_s["float32"] > 1e8
    assert measured.headroom > 1


def test_no_ordinary_operation_beats_the_measured_ceilings(measured: Ceilings) -> None:
    """The gate must never reject a right result: matrix-vector and matrix products stay below."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        weight = torch.ones(512, 512)
        for rows in (1, 8, 256):
            x = torch.ones(rows, 512)
            best = float("inf")
            for _ in range(50):
                start = time.perf_counter()
                torch.nn.functional.linear(x, weight)
                best = min(best, time.perf_counter() - start)
            floor = max(
                measured.seconds_to_compute(2 * rows * 512 * 512, "float32"),
                measured.seconds_to_move(4 * 512 * 512),
            )
            assert floor / best <= measured.headroom
    finally:
        torch.set_num_threads(before)


def test_a_failed_calibration_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "false")
    with pytest.raises(InfrastructureError, match="calibrating 'cpu' failed: no output"):
        calibrate("cpu", 1, ("float32",))


def test_ceilings_are_kept_by_threads_and_never_lowered() -> None:
    row = HardwareRow(
        kind="cpu", name="x", arch="x86_64", memory_bytes=1, count=2, cpu="x", calibration=None
    )
    quiet = Ceilings(bandwidth_bytes_per_s=20, flops_per_s={"float32": 5}, source="measured")
    busy = Ceilings(
        bandwidth_bytes_per_s=10, flops_per_s={"float32": 9, "float16": 1}, source="measured"
    )
    assert stored(row, 1, ("float32",)) is None
    row = with_ceilings(with_ceilings(row, 1, quiet), 1, busy)
    kept = stored(row, 1, ("float32", "float16"))
    assert kept is not None
    assert kept.bandwidth_bytes_per_s == 20
    assert kept.flops_per_s == {"float32": 9, "float16": 1}
    assert stored(row, 1, ("bfloat16",)) is None
    assert stored(row, 2, ("float32",)) is None
    assert row.identity_hash == row.model_copy(update={"calibration": None}).identity_hash
