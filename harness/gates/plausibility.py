"""Physics: no step is faster than its bytes and FLOPs allow on this device."""

from __future__ import annotations

from harness.gates.verdict import failed, verdict
from harness.worker.job import GateResult

# Ceilings come from a short measurement, which a busy moment can understate by a few percent, and
# clocks may rise after it. A kernel that does not do its work is off by a factor, not by 25 %.
SLACK = 1.25


def check_floor(name: str, measured_ns: float, floor_seconds: float, detail: str) -> GateResult:
    """Hold a time to its physical floor: floor / time at most 1.25.

    Args:
        name: what was timed, "plausible_step" or "plausible_ttft".
        measured_ns: the median time.
        floor_seconds: the larger of bytes / bandwidth and FLOPs / peak.
    """
    if not measured_ns > 0:
        return failed(name, "floor/time", f"{detail}: a time of {measured_ns} ns is no time")
    return verdict(
        name,
        floor_seconds * 1e9 / measured_ns,
        SLACK,
        "floor/time",
        f"{detail}: {measured_ns:.0f} ns measured, at least {floor_seconds * 1e9:.0f} ns needed",
    )
