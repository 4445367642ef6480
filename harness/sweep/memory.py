"""What the operating system says about memory: how much is left, and whether it killed for it."""

from __future__ import annotations

from pathlib import Path

import psutil

PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")


def oom_kills(proc: Path = PROC) -> int | None:
    """Processes that the kernel killed for want of memory since boot; None where it is not told.

    Counts kills by a cgroup's limit as well as by the machine's. Source: proc_vmstat(5).
    """
    try:
        lines = (proc / "vmstat").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(" ")
        if name == "oom_kill":
            return int(value)
    return None


def available_bytes(proc: Path = PROC, cgroup: Path = CGROUP) -> int:
    """Main memory a new process can take: what the machine has left, within this cgroup's limit."""
    left = int(psutil.virtual_memory().available)
    return min([left, *_cgroup_left(proc, cgroup)])


def _cgroup_left(proc: Path, cgroup: Path) -> list[int]:
    """Limit less use of this process's memory cgroup, versions 2 and 1, where one is set."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return []
    left: list[int] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            names = ("memory.max", "memory.current")
            folders = _upwards(cgroup, path)
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
            folders = _upwards(cgroup / "memory", path)
        else:
            continue
        for folder in folders:
            limit, used = (_number(folder / name) for name in names)
            if limit is not None and used is not None:
                left.append(max(0, limit - used))
    return left


def _upwards(root: Path, path: str) -> list[Path]:
    """The cgroup's folder and those above it: each limit on the way binds."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    return [root.joinpath(*parts[:n]) for n in range(len(parts), -1, -1)]


def _number(file: Path) -> int | None:
    """The number in `file`; None where there is no file or no limit ("max")."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None
