"""Physics: no step is faster than its bytes and FLOPs allow on this device."""

from __future__ import annotations

from harness.gates.verdict import failed, verdict
from harness.run import GateResult


def check_floor(
    name: str, measured_ns: float, floor_seconds: float, headroom: float, detail: str
) -> GateResult:
    """Hold a time to its physical floor: floor / time at most the headroom of the ceilings.

    Args:
        name: what was timed, "plausible_ttft", "plausible_step" or "plausible_e2e".
        measured_ns: the median time.
        floor_seconds: the larger of bytes / bandwidth and FLOPs / peak.
        headroom: how far a right result may beat the ceilings, which a busy moment can understate.
        detail: what was timed, in words.
    """
    if not measured_ns > 0:
        return failed(name, "floor/time", f"{detail}: a time of {measured_ns} ns is no time")
    return verdict(
        name,
        floor_seconds * 1e9 / measured_ns,
        headroom,
        "floor/time",
        f"{detail}: {measured_ns:.0f} ns measured, at least {floor_seconds * 1e9:.0f} ns needed",
    )
