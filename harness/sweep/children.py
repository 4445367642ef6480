"""Descendants of a worker that outlive it: found and killed, so that none disturbs the next run.

A worker leads a process group and a session of its own, which takes most of its children with it.
A grandchild that started another session escapes from both; on Linux it falls to the nearest
ancestor that asked for orphans, which is this process, and is known by a word in its environment.
Elsewhere only the group is killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

# From <linux/prctl.h>.
_PR_SET_CHILD_SUBREAPER = 36
MARK = "HARNESS_RUN"  # the name of a variable, whose value marks one run's processes


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, where the kernel can (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_group(leader: int) -> None:
    """Kill a process group. Safe while its leader is not reaped, or while a member lives."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def kill_escaped(mark: str, session: int) -> int:
    """Kill and reap the adopted processes of one finished run; returns how many were alive.

    Args:
        mark: the value of `MARK` in the run's environment.
        session: the id of the worker's session, which its dead children still carry.
    """
    alive = 0
    # Killing one can orphan its own children, which then fall to this process too.
    while found := _adopted(mark, session):
        for pid, dead in found:
            with suppress(ProcessLookupError, ChildProcessError):
                if not dead:
                    alive += 1
                    os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
    return alive


def _adopted(mark: str, session: int) -> list[tuple[int, bool]]:
    """Children of this process that stem from the run, each with whether it is dead already."""
    found: list[tuple[int, bool]] = []
    for tasks in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            for pid in map(int, tasks.read_text().split()):
                # Fields after the name, which may hold spaces: state, parent, group, session.
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                marked = f"{MARK}={mark}".encode() in _environment(pid)
                if marked or int(fields[3]) == session:
                    found.append((pid, fields[0] == "Z"))
    return found


def _environment(pid: int) -> list[bytes]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []
