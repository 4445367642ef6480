"""What on this machine would spoil a measurement now, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from harness.hardware.machine import Machine
from harness.hardware.nvml import Gpu

# Processor time that the hypervisor gave to other machines; 1 % is the precision medians aim at.
STOLEN_SHARE = 0.01
AVAILABLE_SHARE = 0.2
# Of a GPU that does nothing yet: drivers slow devices down from 83 degrees or so.
WARM_C = 70
# Clock sources that are read in tens of nanoseconds.
_QUICK_CLOCKS = (None, "tsc", "kvm-clock", "arch_sys_counter")
_GIB = 1024**3


@dataclass(frozen=True)
class Finding:
    """One thing looked at: what it is, whether it spoils numbers, and what to try."""

    subject: str
    level: Literal["good", "note", "bad"]
    says: str
    advice: str = ""


def judge(machine: Machine) -> list[Finding]:
    """Findings in plain words: what measures, the processor, memory, then each GPU."""
    return [
        _software(machine),
        _code(machine),
        _variables(machine),
        _load(machine),
        _processes(machine),
        _stolen(machine),
        _threads(machine),
        _frequency(machine),
        _timer(machine),
        _memory(machine),
        _nodes(machine),
        _energy(machine),
        *_gpus(machine),
    ]


def _software(machine: Machine) -> Finding:
    s = machine.software
    known = {"driver": s.driver, "CUDA": s.cuda, "torch": s.torch, "triton": s.triton}
    versions = [f"{name} {version}" for name, version in known.items() if version]
    says = ", ".join([*versions, f"Python {s.python}", s.os, *filter(None, [s.container])])
    if s.torch is None:
        return Finding("software", "bad", f"{says}; no torch", "install what constraints.txt names")
    if machine.gpus and s.cuda is None:
        return Finding(
            "software", "bad", f"{says}; this torch sees no GPU, and there is one",
            "install PyTorch's CUDA build of the same version, or sweep with --profile cpu",
        )  # fmt: skip
    return Finding("software", "good", says)


def _code(machine: Machine) -> Finding:
    if machine.code is None:
        return Finding(
            "code", "note", "not a git checkout", "rows will not say which code was measured"
        )
    if machine.code.dirty:
        return Finding(
            "code", "note", f"{machine.code.commit[:12]} with uncommitted changes",
            "commit them, or the row's commit does not reproduce its numbers",
        )  # fmt: skip
    return Finding("code", "good", machine.code.commit[:12])


def _variables(machine: Machine) -> Finding:
    if machine.slowing:
        return Finding(
            "variables", "bad", f"{', '.join(machine.slowing)}: set for debugging, and slow",
            "unset them: workers inherit them",
        )  # fmt: skip
    return Finding("variables", "good", "none is set that slows programs down")


def _load(machine: Machine) -> Finding:
    says = f"load average {machine.load:.1f} on {machine.cores} cores"
    # One run measures on one core at least; what it needs must be free.
    if machine.load > machine.cores - 0.5:
        return Finding("load", "bad", says, "wait, or stop other work: a run has to share its core")
    if machine.load > 0.5:
        return Finding("load", "note", says, "numbers will spread more than on an idle machine")
    return Finding("load", "good", says)


def _processes(machine: Machine) -> Finding:
    if not machine.busy:
        return Finding("processes", "good", "no other process uses much of a core")
    shown = ", ".join(f"{b.name} ({b.pid}) {b.cores:.1f} cores" for b in machine.busy[:4])
    more = f" and {len(machine.busy) - 4} more" if len(machine.busy) > 4 else ""
    return Finding(
        "processes", "bad", f"busy now: {shown}{more}", "stop them, or measure when they are done"
    )


def _stolen(machine: Machine) -> Finding:
    says = f"{100 * machine.stolen:.1f} % of processor time went to other virtual machines"
    if machine.stolen > STOLEN_SHARE:
        return Finding("neighbours", "bad", says, "measure at another time or on another host")
    return Finding("neighbours", "good", says)


def _threads(machine: Machine) -> Finding:
    usable = machine.cores if machine.quota_cores is None else machine.quota_cores
    says = f"{machine.cores} cores to use"
    if machine.quota_cores is not None and machine.quota_cores < machine.cores:
        return Finding(
            "threads",
            "bad",
            f"{says}, but the container may use {machine.quota_cores:.1f} of them at a time",
            f"keep a suite's threads at {max(1, int(usable))} or below, or it is stopped in bursts",
        )
    if machine.threads_set is not None:
        return Finding(
            "threads", "note", f"{says}; OMP_NUM_THREADS={machine.threads_set}",
            "workers set their own number, from the suite's threads",
        )  # fmt: skip
    if machine.threads_per_core > 1:
        physical = machine.cores // machine.threads_per_core
        return Finding(
            "threads", "note", f"{says}, {machine.threads_per_core} share a physical one",
            f"keep a suite's threads at {max(1, physical)} or below",
        )  # fmt: skip
    return Finding("threads", "good", says)


def _frequency(machine: Machine) -> Finding:
    if machine.governor is None:
        return Finding(
            "clock rate", "note", "the system hides how clocks are governed",
            "common on virtual machines; trust intervals over rounds, not single runs",
        )  # fmt: skip
    says = f"governor '{machine.governor}'"
    if machine.governor != "performance":
        return Finding(
            "clock rate", "bad", says, "set it: sudo cpupower frequency-set -g performance"
        )
    if machine.turbo:
        return Finding(
            "clock rate", "note", f"{says}, turbo on",
            "clocks follow temperature and neighbours; turn turbo off for the last percent",
        )  # fmt: skip
    return Finding("clock rate", "good", says)


def _timer(machine: Machine) -> Finding:
    if machine.clocksource in _QUICK_CLOCKS:
        return Finding("timer", "good", f"clock source {machine.clocksource or 'not told'}")
    return Finding(
        "timer", "bad", f"clock source {machine.clocksource}",
        "reading the clock takes microseconds with it; boot with clocksource=tsc",
    )  # fmt: skip


def _memory(machine: Machine) -> Finding:
    says = (
        f"{machine.available_bytes / _GIB:.1f} of {machine.memory_bytes / _GIB:.1f} GiB available"
    )
    if machine.available_bytes < AVAILABLE_SHARE * machine.memory_bytes:
        return Finding("memory", "bad", says, "free some: a run that swaps measures the disk")
    if machine.swapped_bytes > 0.01 * machine.memory_bytes:
        swapped = f", {machine.swapped_bytes / _GIB:.1f} GiB swapped out"
        return Finding("memory", "note", says + swapped, "first runs may wait for the disk")
    return Finding("memory", "good", says)


def _nodes(machine: Machine) -> Finding:
    nodes = machine.numa_nodes
    if nodes is not None and nodes > 1:
        return Finding(
            "memory nodes", "note", f"{nodes} nodes (NUMA), and memory of another one is slower",
            "sweep on one: numactl --cpunodebind=0 --membind=0 harness sweep ...",
        )  # fmt: skip
    return Finding("memory nodes", "good", "one" if nodes == 1 else "not told")


def _energy(machine: Machine) -> Finding:
    if machine.counts_energy or machine.gpus:
        return Finding("energy", "good", "a counter is readable")
    return Finding(
        "energy", "note", "no counter of the processor (RAPL) is readable",
        "energy a token stays undefined; where the files exist: "
        "sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj",
    )  # fmt: skip


def _gpus(machine: Machine) -> list[Finding]:
    if not machine.gpus:
        return [Finding("GPU", "note", "NVML shows none", "cases run on the CPU")]
    found: list[Finding] = []
    for i, gpu in enumerate(machine.gpus):
        found += list(_gpu(f"GPU {i}", gpu)) or [Finding(f"GPU {i}", "good", gpu.name)]
    return found


def _gpu(subject: str, gpu: Gpu) -> Iterator[Finding]:
    if gpu.slowdowns:
        yield Finding(
            subject, "bad", f"{gpu.name} is slowed down by {', '.join(gpu.slowdowns)}",
            "let it cool, or lock the clocks below what it can hold",
        )  # fmt: skip
    if gpu.processes:
        yield Finding(
            subject, "bad", f"{gpu.processes} processes compute on {gpu.name}", "stop them"
        )
    if gpu.ecc_errors:
        yield Finding(
            subject, "bad", f"{gpu.name} had {gpu.ecc_errors} uncorrected memory errors (ECC)",
            "its outputs cannot be trusted: have it reset, or replaced where they come back",
        )  # fmt: skip
    if gpu.mig:
        yield Finding(
            subject, "note", f"{gpu.name} is partitioned (MIG)",
            "a part is another device than the datasheet's, and its energy is not told",
        )  # fmt: skip
    if gpu.temperature_c is not None and gpu.temperature_c >= WARM_C:
        yield Finding(
            subject, "note", f"{gpu.name} has {gpu.temperature_c} degrees before anything runs",
            "let it cool, or look after its air: it will be slowed down early",
        )  # fmt: skip
    limit, default = gpu.power_limit_w, gpu.default_power_limit_w
    if limit is not None and default is not None and limit < default:
        yield Finding(
            subject, "note", f"{gpu.name} may draw {limit:.0f} W, {default:.0f} W by default",
            "rows are kept apart by their environment; compare within one limit",
        )  # fmt: skip
    locked, most = gpu.application_sm_mhz, gpu.max_sm_mhz
    if locked is not None and most is not None and locked < most:
        yield Finding(
            subject, "note", f"{gpu.name} has its clock set to {locked} of {most} MHz",
            "steadier, and slower than the datasheet; rows are kept apart by their environment",
        )  # fmt: skip
    if gpu.persistence is False:
        yield Finding(
            subject, "note", f"{gpu.name} is not in persistence mode",
            "sudo nvidia-smi -pm 1, or the first case of a sweep waits for the driver",
        )  # fmt: skip
