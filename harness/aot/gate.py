"""The static gates: machine code held to the spec's claims and to the target's limits."""

from __future__ import annotations

from harness.aot.figures import Compiled, Figures
from harness.gates.verdict import failed, verdict
from harness.kernel import Claims
from harness.run import GateResult
from harness.target import target_named

WIDE_BITS = 128
# Products of these run on matrix units; float32's are exact here ("ieee") and use none.
_EXACT = ("float32", "float64")


def judge(compiled: Compiled, claims: Claims) -> list[GateResult]:
    """Every static gate of one compiled function.

    - compiles: the target can have it at all;
    - spills: bytes of spilled registers a thread;
    - shared_memory: bytes a block against what a block may have;
    - resident: a unit holds at least one block;
    - vector_loads_<argument>: loads narrower than 128 bits of an argument claimed to stream, where
      the configuration has it;
    - tensor_cores: matrix instructions, where a product is claimed.
    """
    if compiled.unsupported is not None:
        return []
    where = f"{compiled.unit.title}, {compiled.title}"
    if compiled.figures is None:
        return [failed("compiles", "", f"{where}: {compiled.error}")]
    found, target = compiled.figures, target_named(compiled.unit.target)
    gates = [
        verdict(
            "spills", found.spill_bytes, claims.spills, "bytes",
            f"{where}: {found.spill_bytes} bytes a thread of spilled registers",
        ),
        verdict(
            "shared_memory", found.shared_bytes, target.shared_block, "bytes",
            f"{where}: {found.shared_bytes} bytes a block of at most {target.shared_block}",
        ),
        verdict(
            "resident", 0 if found.occupancy > 0 else 1, 0, "blocks",
            f"{where}: occupancy {found.occupancy:.0%}, limited by {found.limited_by}",
        ),
        *(
            _vector_loads(found, name, where)
            for name in claims.vector_loads
            if name not in compiled.absent
        ),
    ]  # fmt: skip
    if claims.tensor_cores and compiled.dtype not in _EXACT:
        number = sum(found.tensor_core.values())
        kinds = ", ".join(f"{n} {kind}" for kind, n in found.tensor_core.items()) or "none"
        detail = f"{where}: matrix instructions: {kinds}"
        gates.append(verdict("tensor_cores", 0 if number else 1, 0, "missing", detail))
    return gates


def _vector_loads(found: Figures, argument: str, where: str) -> GateResult:
    widths = found.operands.get(argument, {})
    told = ", ".join(f"{number} loads of {bits} bits" for bits, number in widths.items())
    narrow = sum(number for bits, number in widths.items() if bits < WIDE_BITS)
    name = f"vector_loads_{argument}"
    if not widths:
        return failed(name, "loads", f"{where}: '{argument}' is never read from global memory")
    return verdict(name, narrow, 0, "loads", f"{where}: '{argument}' is read by {told}")
