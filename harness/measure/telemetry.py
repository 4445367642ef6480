"""What the machine did meanwhile: CPU time, waiting, load. Stored beside a run, never a metric."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Below this share of its threads' time a run that only computes had to wait for cores.
BUSY_SHARE = 0.9


@dataclass(frozen=True)
class Mark:
    """Counters of this process at one moment."""

    wall: float
    cpu: float
    switched_out: int  # involuntary context switches
    faults: int  # major page faults


def mark() -> Mark:
    """Read the counters."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu = usage.ru_utime + usage.ru_stime
    return Mark(time.monotonic(), cpu, usage.ru_nivcsw, usage.ru_majflt)


def since(start: Mark, threads: int, slept: float = 0.0) -> dict[str, Any]:
    """What happened since: a CPU share well below 1 says that the case had to wait for cores.

    Args:
        slept: seconds in which the case had nothing to do and said so; no part of its time.
    """
    now = mark()
    wall, cpu = now.wall - start.wall - slept, now.cpu - start.cpu
    return {
        "wall_seconds": round(wall, 6),
        "cpu_seconds": round(cpu, 6),
        "cpu_share": round(cpu / (wall * threads), 4) if wall > 0 else None,
        "switched_out": now.switched_out - start.switched_out,
        "major_faults": now.faults - start.faults,
        "load_1m": round(os.getloadavg()[0], 2),
    }


def contention(timed: Mapping[str, Any], threads: int) -> str | None:
    """Why the times of a window on a CPU are another process's doing; None when they are not.

    Args:
        timed: what `since` gave for it.
    """
    share = timed["cpu_share"]
    if share is None or share >= BUSY_SHARE:
        return None
    return (
        f"computed for {100 * share:.0f} % of the time of its {threads} thread(s): it had to wait "
        "for cores, or it sleeps"
    )
