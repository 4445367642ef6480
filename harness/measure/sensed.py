"""What sensors told over a measurement, as it is stored beside the run, and its energy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from harness.hardware import cpu_sensors
from harness.measure.watch import PERIOD_SECONDS, Seen

FEWEST_PERIODS = 10  # of the sensor, in a window whose energy is believed
MOST_WINDOWS = 64  # stored one by one; longer measurements are thinned


@dataclass(frozen=True)
class Energy:
    """Joules of the whole window, or None with the reason; `source` is what was read."""

    joules: float | None
    source: str = ""
    reason: str = ""


def per_window(seen: Seen, disturbed: str | None) -> Energy:
    """The energy of a measurement, if a share of it may be a token's.

    Not of a window so short that the sensor has changed a few times only, not where others used
    the device, whose energy they share, and not where reading ended before the tokens did.
    """
    if seen.faults:
        return Energy(None, reason=f"the sensors stopped: {seen.faults[0]}")
    if disturbed is not None:
        return Energy(None, reason=f"others may have used the energy: {disturbed}")
    if seen.readings and seen.seconds < FEWEST_PERIODS * PERIOD_SECONDS:
        return Energy(
            None,
            reason=f"the window of {seen.seconds:.2g} s is too short for a sensor that changes "
            f"every {PERIOD_SECONDS:g} s",
        )
    return energy(seen)


def told(seen: Seen) -> dict[str, Any]:
    """What is stored beside the run, without what is not known."""
    found: dict[str, Any] = {"seconds": round(seen.seconds, 3), "faults": list(seen.faults)}
    found |= _gpu_told(seen) if seen.readings else _cpu_told(seen)
    used = energy(seen)
    found["energy_j"] = None if used.joules is None else round(used.joules, 3)
    found["energy_from"] = used.source or used.reason
    return {name: value for name, value in found.items() if value not in (None, [], {})}


def energy(seen: Seen) -> Energy:
    """Joules from first to last reading.

    A GPU's counter where it counts, else the integral of its power. A counter that went backwards,
    or a partitioned GPU, whose counter is the whole board's, gives none.
    """
    if seen.cpu:
        joules = cpu_sensors.joules_between(seen.cpu[0][1], seen.cpu[-1][1])
        if joules is None:
            return Energy(None, reason="the processor's energy counter (RAPL) is not readable here")
        return Energy(joules, "RAPL, all packages of the host")
    if len(seen.readings) < 2:
        return Energy(None, reason="no sensor told the device's energy")
    if seen.mig:
        return Energy(None, reason="the GPU is partitioned (MIG): its counter is the whole board's")
    first, last = seen.readings[0][1].energy_j, seen.readings[-1][1].energy_j
    if first is not None and last is not None and last > first and _counts_up(seen):
        return Energy(last - first, "the GPU's energy counter")
    joules = _integral([(at, r.power_w) for at, r in seen.readings])
    if joules is None:
        why = "did not count up" if first is not None else "is missing"
        return Energy(None, reason=f"the GPU's energy counter {why}, and so is its power unknown")
    return Energy(joules, f"power integrated over {len(seen.readings)} readings")


def _counts_up(seen: Seen) -> bool:
    """Whether the counter never fell: a driver that was loaded anew begins again at 0."""
    counted = [r.energy_j for _, r in seen.readings if r.energy_j is not None]
    return all(b >= a for a, b in pairwise(counted))


def _integral(power: Sequence[tuple[float, float | None]]) -> float | None:
    """Joules by trapezoids; None where a reading lacks its power or shows a negative one."""
    known = [(at, watts) for at, watts in power if watts is not None and watts >= 0]
    if len(known) < 2 or len(known) < len(power):
        return None
    return sum((later - at) * (watts + then) / 2 for (at, watts), (later, then) in pairwise(known))


def _gpu_told(seen: Seen) -> dict[str, Any]:
    readings = [reading for _, reading in seen.readings]
    names = dict.fromkeys(name for reading in readings for name in reading.slowdowns)
    return {
        "readings": len(readings),
        "sm_mhz": _range([r.sm_mhz for r in readings]),
        "memory_mhz": _range([r.memory_mhz for r in readings]),
        "temperature_c": _range([r.temperature_c for r in readings]),
        "power_w": _range([r.power_w for r in readings]),
        "memory_used_bytes": max((r.memory_used_bytes or 0 for r in readings), default=0) or None,
        "slowdowns": {
            name: round(sum(name in r.slowdowns for r in readings) / len(readings), 4)
            for name in names
        },
        "throttled_s": _grown([r.throttled_s for r in readings]),
        "others": max((r.others for r in readings if r.others is not None), default=None),
        "ecc_errors": _grown([r.ecc_errors for r in readings]),
        "mig": seen.mig,
        "persistence": seen.persistence,
        "windows": _windows(seen),
    }


def _cpu_told(seen: Seen) -> dict[str, Any]:
    readings = [reading for _, reading in seen.cpu]
    if not readings:
        return {}
    stolen = cpu_sensors.stolen_share(readings[0], readings[-1])
    return {
        "readings": len(readings),
        "mhz": _range([r.mhz for r in readings]),
        "stolen_share": None if stolen is None else round(stolen, 5),
        "load_1m": _range([r.load_1m for r in readings]),
        "numa_nodes": cpu_sensors.numa_nodes(),
    }


def _windows(seen: Seen) -> list[dict[str, Any]]:
    """The sensors over each repetition, thinned evenly where there are many."""
    every = max(1, -(-len(seen.ends) // MOST_WINDOWS))
    found, begun = [], seen.begun
    for ended in seen.ends[every - 1 :: every]:
        inside = [reading for at, reading in seen.readings if begun <= at <= ended]
        if inside:
            window = {
                "until_s": round(ended - seen.begun, 3),
                "sm_mhz": _range([r.sm_mhz for r in inside]),
                "temperature_c": max((r.temperature_c or 0 for r in inside), default=0) or None,
                "power_w": _range([r.power_w for r in inside]),
                "slowdowns": sorted({name for r in inside for name in r.slowdowns}),
            }
            found.append({k: v for k, v in window.items() if v not in (None, [])})
        begun = ended
    return found


def _range(values: Sequence[float | None]) -> list[float] | None:
    """[smallest, median, largest] of what is known."""
    known = [float(value) for value in values if value is not None]
    if not known:
        return None
    return [round(each, 3) for each in (min(known), median(known), max(known))]


def _grown(values: Sequence[float | None]) -> float | None:
    """How much a counter grew, None where it is unknown or went backwards."""
    known = [value for value in values if value is not None]
    if len(known) < 2 or known[-1] < known[0]:
        return None
    return round(known[-1] - known[0], 6)
