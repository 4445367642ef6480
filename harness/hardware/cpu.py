"""Facts about the host's processor, read from the operating system. Nothing is measured here."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

_CPU = Path("/sys/devices/system/cpu")
_SIZE_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


@dataclass(frozen=True)
class Cpu:
    """The processor as this process may use it."""

    model: str
    arch: str  # "x86_64"
    cores: int  # the ones this process may run on
    memory_bytes: int
    caches: tuple[tuple[int, int], ...]  # (level, bytes) of data caches, by level; () unknown

    @property
    def last_cache_bytes(self) -> int | None:
        """Size of the last-level cache, None where the system does not tell."""
        return self.caches[-1][1] if self.caches else None


def cpu() -> Cpu:
    """Model, cores, memory and caches of this host."""
    # Workers read files of this module, and start quicker without.
    import psutil

    return Cpu(
        model=_model(),
        arch=platform.machine(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else _all_cores(),
        memory_bytes=psutil.virtual_memory().total,
        caches=_caches(),
    )


def governor() -> str | None:
    """The frequency governor of the first core, None where it is hidden (a virtual machine)."""
    return read_line(_CPU / "cpu0/cpufreq/scaling_governor")


def turbo() -> bool | None:
    """Whether clocks may rise above nominal, None where the system does not tell."""
    no_turbo = read_line(_CPU / "intel_pstate/no_turbo")
    if no_turbo is not None:
        return no_turbo == "0"
    boost = read_line(_CPU / "cpufreq/boost")
    return None if boost is None else boost == "1"


def threads_per_core() -> int:
    """Hardware threads that share a core; 1 where the system does not tell."""
    siblings = read_line(_CPU / "cpu0/topology/thread_siblings_list")
    return 1 if siblings is None else len(re.findall(r"\d+", siblings))


def read_line(path: Path) -> str | None:
    """A one-line file of the kernel, None where it is missing or may not be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _all_cores() -> int:
    return os.cpu_count() or 1


def _model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Model", "cpu model"):
                return value.strip()
    if platform.system() == "Darwin":
        asked = subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True
        )
        if asked.returncode == 0:
            return asked.stdout.strip()
    return platform.processor() or "unknown"


def _caches() -> tuple[tuple[int, int], ...]:
    found: dict[int, int] = {}
    for index in sorted(_CPU.glob("cpu0/cache/index*")):
        kind, level = read_line(index / "type"), read_line(index / "level")
        size = re.fullmatch(r"(\d+)([KMG]?)", read_line(index / "size") or "")
        if kind in ("Data", "Unified") and level is not None and size is not None:
            found[int(level)] = int(size[1]) * _SIZE_UNITS[size[2]]
    return tuple(sorted(found.items()))
