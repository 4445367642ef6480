"""What a processor tells while something runs on it: clock, stolen time, energy. None: hidden."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.hardware.cpu import read_line

_CPUFREQ = Path("/sys/devices/system/cpu")
_CPUINFO = Path("/proc/cpuinfo")
_STAT = Path("/proc/stat")
_POWERCAP = Path("/sys/class/powercap")
_NODES = Path("/sys/devices/system/node")


@dataclass(frozen=True)
class CpuReading:
    """A processor at one moment."""

    mhz: float | None  # mean of the cores this process may use
    stolen_s: float | None  # processor time given to other virtual machines, since boot
    total_s: float  # of all processor time since boot; 0 where the system does not tell
    energy_uj: tuple[int, ...] | None  # counters of the packages; they wrap
    load_1m: float


def read() -> CpuReading:
    """The processor now: some files of the kernel, a few tenths of a millisecond."""
    stolen_s, total_s = _times()
    return CpuReading(
        mhz=_mhz(),
        stolen_s=stolen_s,
        total_s=total_s,
        energy_uj=_energy_uj(),
        load_1m=os.getloadavg()[0],
    )


def joules_between(first: CpuReading, last: CpuReading) -> float | None:
    """Energy of all packages between two readings (RAPL); None where it is hidden or lies.

    A counter that went down has wrapped at its range, once at most: packages take hours for it.
    """
    if first.energy_uj is None or last.energy_uj is None:
        return None
    ranges = _energy_ranges_uj()
    if not len(first.energy_uj) == len(last.energy_uj) == len(ranges):
        return None
    spent = [
        b - a if b >= a else b + full - a
        for a, b, full in zip(first.energy_uj, last.energy_uj, ranges, strict=True)
    ]
    return None if any(each < 0 for each in spent) else sum(spent) / 1e6


def stolen_share(first: CpuReading, last: CpuReading) -> float | None:
    """Share of all processor time that the hypervisor gave to others between two readings."""
    total = last.total_s - first.total_s
    if first.stolen_s is None or last.stolen_s is None or total <= 0:
        return None
    return max(0.0, last.stolen_s - first.stolen_s) / total


def numa_nodes() -> int | None:
    """Memory nodes of this host, None where the system does not tell."""
    nodes = list(_NODES.glob("node[0-9]*"))
    return len(nodes) or None


def _times() -> tuple[float | None, float]:
    """Seconds stolen by the hypervisor, and of all kinds, over all cores since boot (Linux).

    proc(5): user, nice, system, idle, iowait, irq, softirq, steal; guests follow, counted as users.
    """
    name, *counted = (read_line(_STAT) or "").partition("\n")[0].split()[:9] or [""]
    if name != "cpu" or len(counted) < 8:
        return None, 0.0
    seconds = [int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in counted]
    return seconds[7], sum(seconds)


def _mhz() -> float | None:
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    found = []
    for core in cores:
        khz = read_line(_CPUFREQ / f"cpu{core}/cpufreq/scaling_cur_freq")
        if khz is not None and khz.isdigit():
            found.append(int(khz) / 1e3)
    return sum(found) / len(found) if found else _cpuinfo_mhz(cores)


def _cpuinfo_mhz(cores: Sequence[int]) -> float | None:
    """From /proc/cpuinfo; a virtual machine shows its nominal clock there, whatever it runs at."""
    try:
        text = _CPUINFO.read_text()
    except OSError:
        return None
    every = [float(number) for number in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", text, re.MULTILINE)]
    mine = [every[core] for core in cores if core < len(every)]
    return sum(mine) / len(mine) if mine else None


def _packages() -> list[Path]:
    """RAPL's domains of whole packages; their parts (core, dram) would count twice."""
    return sorted(path for path in _POWERCAP.glob("intel-rapl:*") if path.name.count(":") == 1)


def _energy_uj() -> tuple[int, ...] | None:
    lines = [read_line(package / "energy_uj") for package in _packages()]
    known = [int(line) for line in lines if line is not None and line.isdigit()]
    return tuple(known) if known and len(known) == len(lines) else None


def _energy_ranges_uj() -> list[int]:
    lines = [read_line(package / "max_energy_range_uj") for package in _packages()]
    return [int(line) for line in lines if line is not None and line.isdigit()]
