"""Which device there is to measure on."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from harness.errors import InfrastructureError
from harness.hardware.cpu import Cpu, cpu
from harness.hardware.identity import HardwareRow

# Importing torch takes seconds: it is asked only where the kernel shows a device of its kinds.
_DEVICE_NODES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
_GIB = 1024**3


def detect(kind: Literal["cpu", "cuda"] | None = None) -> HardwareRow:
    """The device that cases run on: a GPU where there is one, else the CPU.

    Args:
        kind: force one of them; InfrastructureError when a GPU is asked for and there is none.

    Memory is rounded to whole GiB, because the hash is a series' key and a new kernel moves the
    total by a few MB.
    """
    host = cpu()
    if kind != "cpu":
        found = _cuda(host) if has_device_node() or kind == "cuda" else None
        if found is not None:
            return found
        if kind == "cuda":
            raise InfrastructureError(
                "no GPU was found on this machine (torch sees no CUDA or ROCm device); use "
                "--profile cpu, or check the driver with 'harness doctor'"
            )
    return HardwareRow(
        kind="cpu",
        name=host.model,
        arch=host.arch,
        memory_bytes=_rounded(host.memory_bytes),
        count=host.cores,
        cpu=host.model,
    )


def has_device_node() -> bool:
    """Whether the kernel shows a device that torch might compute on."""
    return any(Path(node).exists() for node in _DEVICE_NODES)


def _cuda(host: Cpu) -> HardwareRow | None:
    import torch

    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(0)
    # ROCm builds answer to torch.cuda as well, and name their architecture themselves.
    arch = getattr(properties, "gcnArchName", None) if torch.version.hip else None
    return HardwareRow(
        kind="cuda",
        name=properties.name,
        arch=arch or f"sm_{properties.major}{properties.minor}",
        memory_bytes=_rounded(properties.total_memory),
        count=torch.cuda.device_count(),
        cpu=host.model,
    )


def _rounded(memory_bytes: int) -> int:
    return max(1, round(memory_bytes / _GIB)) * _GIB
