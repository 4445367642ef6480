"""One unit compiled, and what is read off it at once; its instructions are counted in bulk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton
from triton.compiler import ASTSource

from harness.aot import amd, nvidia
from harness.aot.figures import Figures
from harness.aot.occupancy import occupancy
from harness.aot.operands import Widths, llvm_widths, ptx_widths
from harness.aot.units import Unit, triton_target
from harness.target import Target, target_named


@dataclass(frozen=True)
class Machine:
    """A compiled unit, before its instructions are counted."""

    target: Target
    registers: int
    spill_bytes: int
    shared_bytes: int
    warps: int
    operands: Widths
    code: bytes  # NVIDIA's machine code; AMD's assembly in UTF-8


def compiled(unit: Unit) -> Machine:
    """Compile a unit. Raises what Triton raises where the target cannot have it."""
    source = ASTSource(
        unit.function, dict(unit.signature), dict(unit.constants), dict(unit.attributes)
    )
    target = target_named(unit.name.target)
    made = triton.compile(source, triton_target(target), dict(unit.options))
    shared, warps = made.metadata.shared, made.metadata.num_warps
    if target.backend == "hip":
        assembly: str = made.asm["amdgcn"]
        told = amd.resources(assembly)
        widths = llvm_widths(made.asm["llir"], unit.pointers)
        # The count of vector registers includes the accumulation registers.
        return Machine(
            target, told["vgpr_count"], amd.spill_bytes(told), shared, warps, widths,
            assembly.encode(),
        )  # fmt: skip
    cubin: bytes = made.asm["cubin"]
    told = nvidia.resources(cubin)
    widths = ptx_widths(made.asm["ptx"], unit.pointers)
    return Machine(
        target, told["REG"], told["STACK"] + told["LOCAL"], shared, warps, widths,
        nvidia.code(cubin),
    )  # fmt: skip


def figures(machines: list[Machine]) -> list[Figures]:
    """Figures of machines of one target, disassembled together."""
    if not machines:
        return []
    target = machines[0].target
    codes = [machine.code for machine in machines]
    reader: Any = amd if target.backend == "hip" else nvidia
    if target.backend == "hip":
        names = [amd.instructions(code.decode()) for code in codes]
    else:
        names = nvidia.disassembled(codes, target)
    return [_figures(m, each, reader) for m, each in zip(machines, names, strict=True)]


def _figures(machine: Machine, names: list[str], reader: Any) -> Figures:
    share, limit = occupancy(machine.target, machine.registers, machine.shared_bytes, machine.warps)
    return Figures(
        registers=machine.registers,
        spill_bytes=machine.spill_bytes,
        shared_bytes=machine.shared_bytes,
        warps=machine.warps,
        occupancy=share,
        limited_by=limit,
        tensor_core=reader.tensor_core(names),
        operands=machine.operands,
        **reader.counts(names),
    )
