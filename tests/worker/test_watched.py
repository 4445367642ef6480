"""A run under a planted throttle flag: stored, flagged, tried again, invalid in the end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pynvml
import pytest

from harness import worker
from harness.hardware import nvml
from harness.hardware.ceilings import Ceilings
from harness.measure.watch import Watch
from harness.run import RunRecord
from harness.suite import Planned
from harness.suite.case import Case, GateSettings, MeasureSettings
from harness.sweep.history import MAX_ATTEMPTS, History
from harness.sweep.interruption import Interruption
from harness.sweep.plan import SweepPlan
from harness.sweep.run import measure
from harness.worker.job import Job

MakeJob = Callable[..., Job]
SHORT: dict[str, Any] = {"max_seconds": 0.3, "precision": 0.9, "rounds": 1}
HOT = pynvml.nvmlClocksThrottleReasonHwThermalSlowdown


@pytest.fixture
def on_fake_gpu(monkeypatch: pytest.MonkeyPatch, fake_nvml: Any) -> Any:
    """Runs of this process are watched on the made-up GPU, whatever they compute on."""
    monkeypatch.setattr(
        "harness.worker.stages.for_watch",
        lambda _: Watch(gpu=nvml.open_gpu(), processor=False, period=0.01),
    )
    # Whether this machine's own cores were free is not what is tried here.
    monkeypatch.setattr("harness.measure.telemetry.contention", lambda *_: None)
    return fake_nvml


def test_a_worker_that_reads_a_processor_s_sensors_starts_without_libraries_for_others() -> None:
    program = (
        "import sys, harness.worker.__main__\n"
        "from harness.measure import watch\n"
        "seen = watch.Watch()\n"
        "seen.start()\n"
        "seen.stop()\n"
        "assert not {'psutil', 'pynvml', 'torch'} & set(sys.modules), sorted(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("policy", ["keep", "invalid"])
def test_a_throttled_run_is_stored_with_its_flag(
    on_fake_gpu: Any, make_job: MakeJob, policy: str
) -> None:
    on_fake_gpu.reasons = HOT
    record = worker.run(make_job(measure=MeasureSettings(**SHORT, contended=policy)))
    assert record.telemetry["device"]["slowdowns"] == {"temperature (hardware)": 1.0}
    (flag,) = record.telemetry["flags"]
    assert "slowed down by its temperature (hardware)" in flag
    assert record.status == ("ok" if policy == "keep" else "invalid")
    assert bool(record.metrics) is (policy == "keep")
    json.dumps(record.telemetry, allow_nan=False)


def test_a_run_at_its_power_limit_is_flagged_and_kept(on_fake_gpu: Any, make_job: MakeJob) -> None:
    """It would run into its limit again: a strict filter leaves nothing (NVIDIA/nvbench#231)."""
    on_fake_gpu.reasons = pynvml.nvmlClocksThrottleReasonSwPowerCap
    record = worker.run(make_job(measure=MeasureSettings(**SHORT, contended="invalid")))
    assert record.status == "ok"
    assert "power limit" in record.telemetry["flags"][0]


class InProcess:
    """Runs jobs here and keeps what a store would."""

    def __init__(self, cool_at: int | None, nvml: Any) -> None:
        self.cool_at, self.nvml = cool_at, nvml
        self.saved: list[RunRecord] = []
        self.ended: list[str] = []

    def submit(self, job: Job) -> RunRecord:
        self.nvml.reasons = 0 if job.attempt == self.cool_at else HOT
        return worker.run(job)

    def save_run(self, sweep_id: int, case: Case, record: RunRecord) -> int:
        self.saved.append(record)
        return len(self.saved)

    def end_sweep(self, sweep_id: int, status: str) -> None:
        self.ended.append(status)


class Silent:
    """Progress that says nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


@pytest.mark.parametrize(
    ("cool_at", "statuses"),
    [(2, ["invalid", "ok"]), (None, ["invalid"] * MAX_ATTEMPTS)],
    ids=["cools down", "stays hot"],
)
def test_a_throttled_run_is_tried_again_and_invalid_when_retries_are_spent(
    on_fake_gpu: Any, make_job: MakeJob, cool_at: int | None, statuses: list[str]
) -> None:
    job = make_job()
    bench: Any = InProcess(cool_at, on_fake_gpu)
    plan = SweepPlan(
        cases=[Planned(job.case, None, None)],
        measure=MeasureSettings(**SHORT, contended="invalid"),
        gate=GateSettings(),
        seed=1,
        ceilings={1: job.ceilings or Ceilings(bandwidth_bytes_per_s=1, flops_per_s={}, source="")},
        retry_pause_s=0.01,
    )
    progress: Any = Silent()
    with Interruption() as interruption:
        outcome = measure(
            plan, 1, executor=bench, store=bench, progress=progress, history=History(),
            interruption=interruption,
        )  # fmt: skip
    assert [record.status for record in bench.saved] == statuses
    assert [record.attempt for record in bench.saved] == list(range(1, 1 + len(statuses)))
    assert bench.ended == ["complete"]
    assert outcome.exit_code == (0 if cool_at else 1)


@pytest.mark.parametrize("fault", ["missing", "lost", "broken", "lying"])
def test_a_sensor_that_fails_never_breaks_a_run(
    on_fake_gpu: Any, make_job: MakeJob, fault: str
) -> None:
    if fault == "missing":
        on_fake_gpu.nvmlInit = lambda: (_ for _ in ()).throw(
            pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
        )
    elif fault == "lost":
        on_fake_gpu.lost_after = 15
    elif fault == "broken":
        on_fake_gpu.broken_after = 15
    else:
        on_fake_gpu.energy_mj = lambda _: -len(on_fake_gpu.calls)
        on_fake_gpu.unsupported = {"nvmlDeviceGetPowerUsage"}
    record = worker.run(make_job(measure=MeasureSettings(**SHORT, contended="invalid")))
    assert (record.status, record.reason) == ("ok", None)
    energy = next(metric for metric in record.metrics if metric.name == "energy_per_token")
    assert energy.value is None
    assert energy.null_reason


def test_the_datasheet_decides_and_the_calibration_warns(make_job: MakeJob) -> None:
    """A result at half its physical floor is rejected; one above the calibrated limits is kept."""
    low = Ceilings(bandwidth_bytes_per_s=1e3, flops_per_s={"float32": 1e3}, source="measured")
    high = Ceilings(bandwidth_bytes_per_s=1e18, flops_per_s={}, source="datasheet of x")
    kept = worker.run(make_job(ceilings=low, datasheet=high))
    assert kept.status == "ok"
    assert "times faster than calibrated" in kept.telemetry["faster_than_calibrated"][0]
    refused = worker.run(make_job(ceilings=high, datasheet=low))
    assert refused.status == "gate_failed"
    assert refused.metrics == []


def test_half_the_physical_floor_is_rejected(make_job: MakeJob) -> None:
    """Limits at which the measured time is exactly half of what is needed."""
    job = make_job(batch=1)
    first = worker.run(job)
    step = next(gate for gate in first.gates if gate.name == "plausible_step")
    assert job.ceilings is not None
    assert step.observed is not None
    # As slow as makes floor / time about 2; the median of another run may differ by a half.
    rate = job.ceilings.bandwidth_bytes_per_s * step.observed / 3.0
    slow = Ceilings(bandwidth_bytes_per_s=rate, flops_per_s={}, source="datasheet", headroom=1.1)
    record = worker.run(make_job(batch=1, datasheet=slow))
    assert record.status == "gate_failed"
    assert record.metrics == []
