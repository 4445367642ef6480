"""How many blocks of a kernel a unit holds at once, by its resources alone."""

from __future__ import annotations

from harness.target import Target

# Each unit of the targets known here has four parts with registers of their own.
_PARTS = 4
_SHARED_STEP = 128


def occupancy(target: Target, registers: int, shared_bytes: int, warps: int) -> tuple[float, str]:
    """Resident warps as a share of those that the unit can hold, and what allows no more.

    Args:
        registers: 32-bit registers a thread.
        shared_bytes: shared memory a block.
        warps: warps a block.

    Source: CUDA C++ Best Practices Guide, "Calculating Occupancy"; registers are given to whole
    warps in steps, out of the part that the warp runs on. 0.0 where not one block fits.
    """
    per_warp = -(-max(registers, 1) * target.warp // target.registers_step) * target.registers_step
    by_registers = _PARTS * (target.registers_unit // _PARTS // per_warp) // warps
    shared = -(-shared_bytes // _SHARED_STEP) * _SHARED_STEP + target.shared_reserved
    by_shared = target.shared_unit // shared if shared else target.blocks_unit
    limits = {
        "registers": by_registers,
        "shared memory": by_shared,
        "warps": target.warps_unit // warps,
        "blocks": target.blocks_unit,
    }
    blocks = min(limits.values())
    # The first of equals is named; "warps" alone means that nothing is in the way.
    limit = "warps" if limits["warps"] == blocks else min(limits, key=lambda name: limits[name])
    return blocks * warps / target.warps_unit, limit
