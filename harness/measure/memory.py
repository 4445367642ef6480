"""Peak memory of the timed window: on a CPU the process's high-water mark above its start.

Source: proc(5), `VmHWM` and `clear_refs`; PyTorch's caching allocator for CUDA.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Peak:
    """Peak bytes, or None with the reason why they are not known."""

    bytes: int | None
    reason: str | None = None


class CpuPeak:
    """High-water mark of resident memory above what was resident when this was made.

    Make it before the engine is built. `restart` forgets the peaks of what is not measured, such
    as the gates' references.
    """

    def __init__(self) -> None:
        trim()
        self._start = _kib("VmRSS")
        self._restarted = False

    def restart(self) -> None:
        """Count peaks from now on, where the kernel permits it."""
        trim()
        try:
            _CLEAR.write_text("5")
        except OSError:
            return
        self._restarted = True

    def read(self) -> Peak:
        """Bytes above the start."""
        mark = _kib("VmHWM")
        if mark is None or self._start is None:
            return Peak(None, "this system has no /proc/self/status to read memory from")
        if not self._restarted:
            # The mark then holds the gates' references too: too much is worse than nothing.
            return Peak(None, "the kernel does not permit resetting the high-water mark")
        return Peak(max(0, mark - self._start) * 1024)


class CudaPeak:
    """Largest number of bytes the caching allocator had handed out above the start."""

    def __init__(self) -> None:
        import torch

        self._start = torch.cuda.memory_allocated()

    def restart(self) -> None:
        """Count peaks from now on."""
        import torch

        torch.cuda.reset_peak_memory_stats()

    def read(self) -> Peak:
        """Bytes above the start."""
        import torch

        return Peak(max(0, torch.cuda.max_memory_allocated() - self._start))


def watch(device: str) -> CpuPeak | CudaPeak:
    """Start watching the memory of a device, "cpu" or "cuda"."""
    return CpuPeak() if device == "cpu" else CudaPeak()


def trim() -> None:
    """Give freed heap back to the system (glibc), so that resident means used."""
    release = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if release is not None:
        release(0)


def _kib(field: str) -> int | None:
    """A field of /proc/self/status in KiB; None where there is none."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), None)
