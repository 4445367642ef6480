"""Targets that kernels are compiled for: what one multiprocessor of each holds.

Limits are the architecture's, not a product's: they decide whether a kernel can be launched and
how many of its blocks fit. Sources: CUDA C++ Programming Guide, "Compute Capabilities" (threads,
registers and shared memory by capability); AMD CDNA 3 ISA guide and the ROCm documentation of
gfx942 (512 registers a lane, 64 KiB of LDS, 8 waves a SIMD, 4 SIMDs).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.errors import unknown


@dataclass(frozen=True)
class Target:
    """One architecture. A unit is a multiprocessor (NVIDIA) or a compute unit (AMD)."""

    arch: str
    backend: Literal["cuda", "hip"]
    warp: int  # threads
    shared_block: int  # bytes of shared memory that one block may have
    shared_unit: int  # bytes of shared memory of a unit
    shared_reserved: int  # bytes a block that the system takes beside its own
    registers_unit: int  # 32-bit registers of a unit, all lanes counted
    registers_step: int  # registers a warp are given in multiples of this
    warps_unit: int  # resident at most
    blocks_unit: int
    units: int  # of the largest product, for launchers that fill a device

    @property
    def capability(self) -> int:
        """90 of "sm_90"; 0 for AMD."""
        return int(self.arch.removeprefix("sm_")) if self.backend == "cuda" else 0


def _nvidia(
    arch: str, block_kib: int, unit_kib: int, warps: int, blocks: int, units: int
) -> Target:
    return Target(
        arch, "cuda", 32, block_kib * 1024, unit_kib * 1024, 1024, 65536, 256, warps, blocks, units
    )


TARGETS: dict[str, Target] = {
    target.arch: target
    for target in (
        _nvidia("sm_80", 163, 164, 64, 32, 108),
        _nvidia("sm_86", 99, 100, 48, 16, 84),
        _nvidia("sm_89", 99, 100, 48, 24, 128),
        _nvidia("sm_90", 227, 228, 64, 32, 132),
        _nvidia("sm_100", 227, 228, 64, 32, 148),
        _nvidia("sm_120", 99, 100, 48, 24, 170),
        # 512 registers a lane and SIMD, 64 lanes, 4 SIMDs; given to a wave in steps of 8.
        Target("gfx942", "hip", 64, 65536, 65536, 0, 4 * 512 * 64, 8 * 64, 32, 32, 304),
    )
}


def target_named(arch: str) -> Target:
    """The target of that name; UsageError with the closest name otherwise."""
    if arch not in TARGETS:
        raise unknown("target", arch, TARGETS)
    return TARGETS[arch]
