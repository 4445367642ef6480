"""What the machine did meanwhile: CPU time, waiting, load. Stored beside a run, never a metric."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from typing import Any


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


def since(start: Mark, threads: int) -> dict[str, Any]:
    """What happened since: a CPU share well below 1 says that the case had to wait for cores."""
    now = mark()
    wall, cpu = now.wall - start.wall, now.cpu - start.cpu
    return {
        "wall_seconds": round(wall, 6),
        "cpu_seconds": round(cpu, 6),
        "cpu_share": round(cpu / (wall * threads), 4) if wall > 0 else None,
        "switched_out": now.switched_out - start.switched_out,
        "major_faults": now.faults - start.faults,
        "load_1m": round(os.getloadavg()[0], 2),
    }
