"""The state of this machine now, as far as it matters to a measurement."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness.hardware import cpu_sensors, nvml
from harness.hardware.cpu import cpu, governor, read_line, threads_per_core, turbo
from harness.hardware.environment import environment
from harness.hardware.identity import EnvironmentRow, RevisionRow
from harness.hardware.revision import revision

# Of one core. Background daemons stay below; a compiler, a browser tab or another measurement
# does not.
BUSY_SHARE = 0.2
_WATCH_SECONDS = 0.5


@dataclass(frozen=True)
class Busy:
    """A process that used a core while we watched."""

    pid: int
    name: str
    cores: float


@dataclass(frozen=True)
class Machine:
    """What was seen. None: this system does not tell."""

    cores: int
    quota_cores: float | None  # of the control group; None: unlimited or unknown
    threads_per_core: int
    load: float  # runnable processes, mean of the last minute
    stolen: float  # share of all processor time
    busy: tuple[Busy, ...]
    governor: str | None
    turbo: bool | None
    clocksource: str | None
    threads_set: str | None  # OMP_NUM_THREADS
    memory_bytes: int
    available_bytes: int
    swapped_bytes: int
    gpus: tuple[nvml.Gpu, ...]
    numa_nodes: int | None
    counts_energy: bool  # of the processor (RAPL), readable by this user
    slowing: tuple[str, ...]  # variables set that make programs slower, as NAME=value
    software: EnvironmentRow
    code: RevisionRow | None  # None: not a git checkout


# What is set for debugging, forgotten, and inherited by every worker.
_SLOWING = (
    "CUDA_LAUNCH_BLOCKING", "PYTHONDEVMODE", "PYTHONMALLOC", "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "TORCH_SHOW_DISPATCH_TRACE", "TRITON_DEBUG", "TRITON_INTERPRET",
)  # fmt: skip


def observe(variables: Mapping[str, str], watch_seconds: float = _WATCH_SECONDS) -> Machine:
    """Look at the machine, watching its processes for `watch_seconds`."""
    host, memory = cpu(), psutil.virtual_memory()
    stolen, busy = _watch(watch_seconds)
    return Machine(
        cores=host.cores,
        quota_cores=_quota_cores(),
        threads_per_core=threads_per_core(),
        load=os.getloadavg()[0],
        stolen=stolen,
        busy=busy,
        governor=governor(),
        turbo=turbo(),
        clocksource=read_line(
            Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        ),
        threads_set=variables.get("OMP_NUM_THREADS"),
        memory_bytes=memory.total,
        available_bytes=memory.available,
        swapped_bytes=psutil.swap_memory().used,
        gpus=tuple(nvml.gpus()),
        numa_nodes=cpu_sensors.numa_nodes(),
        counts_energy=cpu_sensors.read().energy_uj is not None,
        slowing=tuple(
            f"{name}={variables[name]}"
            for name in _SLOWING
            if variables.get(name, "0") not in ("0", "")
        ),
        software=environment(variables),
        code=revision(),
    )


def _watch(seconds: float) -> tuple[float, tuple[Busy, ...]]:
    """Share of stolen processor time, and processes that were busy, over `seconds`."""
    before = {process.pid: _seconds_of(process) for process in psutil.process_iter()}
    times, start = psutil.cpu_times(), time.monotonic()
    time.sleep(seconds)
    elapsed, later = time.monotonic() - start, psutil.cpu_times()
    total = sum(later) - sum(times)
    stolen = getattr(later, "steal", 0.0) - getattr(times, "steal", 0.0)
    busy = []
    for process in psutil.process_iter():
        used = _seconds_of(process)
        was = before.get(process.pid, 0.0)
        if used is None or was is None or process.pid == os.getpid():
            continue
        if (used - was) / elapsed > BUSY_SHARE:
            busy.append(Busy(process.pid, _name_of(process), (used - was) / elapsed))
    busy.sort(key=lambda b: -b.cores)
    return (stolen / total if total > 0 else 0.0), tuple(busy)


def _seconds_of(process: psutil.Process) -> float | None:
    """Processor time so far; None for a process that is gone or hidden."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return None
    return times.user + times.system


def _name_of(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return "gone"


def _quota_cores() -> float | None:
    """Cores' worth of time that the control group grants; None: unlimited or unknown."""
    both = read_line(Path("/sys/fs/cgroup/cpu.max"))
    if both is not None:
        quota, _, period = both.partition(" ")
    else:
        old = Path("/sys/fs/cgroup/cpu")
        quota = read_line(old / "cpu.cfs_quota_us") or "max"
        period = read_line(old / "cpu.cfs_period_us") or ""
    if not quota.isdigit() or not period.isdigit():
        return None
    return int(quota) / int(period)
