"""Each sweep keeps the limits that judged it, whatever was measured of the device since."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.errors import InfrastructureError
from harness.hardware.calibration import with_ceilings
from harness.hardware.ceilings import Ceilings, InForce
from harness.hardware.detection import detect
from harness.run import RunRecord
from harness.store import open_reader, open_store
from harness.suite import Suite, cases, document
from harness.sweep import Order, run_sweep
from harness.sweep.progress import PlainProgress
from harness.worker.job import Job

SUITE = """
suite: two
stacks: [mha, gqa]
model: tiny
workload: {kind: generate, batch: 1, prompt_tokens: 8, new_tokens: 4}
measure: {rounds: 1}
"""
DATASHEET = Ceilings(bandwidth_bytes_per_s=9e10, flops_per_s={"float32": 1e12}, source="sheet")


def limits(bandwidth: float) -> Callable[[str, int, Sequence[str]], Ceilings]:
    """A device that moves so many bytes a second."""
    return lambda _device, _threads, dtypes: Ceilings(
        bandwidth_bytes_per_s=bandwidth, flops_per_s=dict.fromkeys(dtypes, 1e11), source="made up"
    )


class Recording:
    """Answers jobs, and fails at one of them."""

    def __init__(self, make: Callable[..., RunRecord], good: int) -> None:
        self._make, self._good = make, good
        self.jobs: list[Job] = []

    def submit(self, job: Job) -> RunRecord:
        if len(self.jobs) == self._good:
            raise InfrastructureError("the device is gone")
        self.jobs.append(job)
        return self._make(job.case, "ok", job.round, job.attempt, job.order_slot)


@pytest.fixture
def swept(
    tmp_path: Path, make_record: Callable[..., RunRecord], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Recording]:
    """Sweep on a device with that bandwidth; the executor that was used."""
    # Files that someone edits meanwhile would be other code, which is not resumed.
    monkeypatch.setattr("harness.sweep.session.revision", lambda: None)

    def run(bandwidth: float, good: int = 2, **order: Any) -> Recording:
        suite = Suite.of(document.read(SUITE, "two"))
        executor = Recording(make_record, good)
        run_sweep(
            Order(suite, "cpu", tuple(cases(suite, "cpu")), ("sweep", "two"), seed=1, **order),
            detect("cpu"),
            url=str(tmp_path / "limits.db"),
            progress=PlainProgress(Console(quiet=True)),
            lock=tmp_path / "lock",
            executor=lambda _: executor,
            limits=limits(bandwidth),
        )
        return executor

    return run


def test_a_later_calibration_changes_no_earlier_sweep(
    swept: Callable[..., Recording], tmp_path: Path
) -> None:
    for bandwidth in (1e10, 3e10, 2e10):
        swept(bandwidth, datasheet=DATASHEET)
    with open_reader(str(tmp_path / "limits.db")) as reader:
        rows = reader.sweeps()
    kept = [row.ceilings for row in rows if row.ceilings is not None]
    # A lower measurement does not lower what holds.
    assert [each.measured[1].bandwidth_bytes_per_s for each in kept] == [1e10, 3e10, 3e10]
    assert all(each.datasheet == DATASHEET for each in kept)


def test_a_resumed_sweep_is_judged_by_the_limits_it_began_with(
    swept: Callable[..., Recording], tmp_path: Path
) -> None:
    with pytest.raises(InfrastructureError, match="gone"):
        swept(1e10, good=1)
    hardware = detect("cpu")
    with open_store(str(tmp_path / "limits.db")) as store:
        store.save_hardware(with_ceilings(hardware, 1, limits(5e10)("cpu", 1, ("float32",))))
    resumed = swept(5e10, resume=True)
    (job,) = resumed.jobs
    assert job.ceilings is not None
    assert job.ceilings.bandwidth_bytes_per_s == 1e10
    with open_reader(str(tmp_path / "limits.db")) as reader:
        row = reader.sweep()
    assert row.ceilings == InForce(measured={1: job.ceilings})
