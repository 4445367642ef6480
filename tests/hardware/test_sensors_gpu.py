"""A real GPU's sensors and limits: energy two ways, and rates that its datasheet allows."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
import torch

from harness.hardware import catalogue
from harness.hardware.calibration import calibrate
from harness.hardware.detection import detect
from harness.measure import sensed
from harness.measure.watch import for_device

pytestmark = pytest.mark.gpu

# Drivers give power as a mean over a second, so that begins are hidden unless the load is older.
WARM_SECONDS, SECONDS, APART = 2.0, 4.0, 0.1


def busy(seconds: float) -> None:
    """Multiply matrices for so long."""
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for _ in range(20):
            torch.mm(a, a)
        torch.cuda.synchronize()


def test_integrated_power_agrees_with_the_energy_counter() -> None:
    watch = for_device("cuda")
    if watch.gpu is None or watch.gpu.read().energy_j is None:
        pytest.skip("there is nothing to hold against: NVML tells no energy of this device")
    busy(WARM_SECONDS)
    watch.start()
    busy(SECONDS)
    seen = watch.stop()
    counted = sensed.energy(seen)
    uncounted = tuple((at, replace(reading, energy_j=None)) for at, reading in seen.readings)
    integrated = sensed.energy(replace(seen, readings=uncounted))
    assert counted.source == "the GPU's energy counter", counted.reason
    assert integrated.source.startswith("power integrated"), integrated.reason
    assert integrated.joules == pytest.approx(counted.joules, rel=APART)


def test_what_is_calibrated_is_within_the_datasheet() -> None:
    known = catalogue.matching(detect("cuda"))
    if known is None:
        pytest.skip("this device is not in the catalogue")
    limits, measured = known[1].ceilings(), calibrate("cuda", 1, ("float16",))
    for name, found, most in (
        ("memory", measured.bandwidth_bytes_per_s, limits.bandwidth_bytes_per_s),
        ("matrix", measured.flops_per_s["float16"], limits.flops_per_s["float16"]),
    ):
        assert 0.3 * most < found < limits.headroom * most, name
