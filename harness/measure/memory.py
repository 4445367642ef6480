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
        _run_once()
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


def _run_once() -> None:
    """Run, very small, what every model runs: a library's first use brings its code and buffers
    into memory, some 12 MB that no case allocated."""
    import torch
    import torch.nn.functional as F  # noqa: N812 - torch's own abbreviation

    with torch.inference_mode():
        for dtype in (torch.float32, torch.float64):
            for rows in (1, 2, 64):
                x = torch.ones(rows, 64, dtype=dtype)
                weight, norm = torch.ones(64, 64, dtype=dtype), torch.ones(64, dtype=dtype)
                y = F.silu(F.rms_norm(torch.addmm(x, x, weight), (64,), norm, 1e-5))
                q = y.view(1, rows, 2, 32).transpose(1, 2)
                F.scaled_dot_product_attention(q, q, q, is_causal=rows > 1)
                torch.softmax(y, -1).argmax(-1).tolist()


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
