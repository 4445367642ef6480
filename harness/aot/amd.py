"""Machine code of AMD targets: resources and instructions, read from its assembly."""

from __future__ import annotations

import re

_META = re.compile(r"^\s*-?\s*\.(\w+):\s+(\d+)\s*$", re.MULTILINE)
_INSTRUCTION = re.compile(r"^[ \t]+([a-z][a-z0-9]*_[a-z0-9_]+)", re.MULTILINE)
_LOAD = re.compile(
    r"(?:global|buffer)_load_\w*?(?:dword(?:x(\d))?|ubyte|sbyte|ushort|sshort|short)"
)
_DWORD = 32
_WIDE_BITS = 128


def resources(assembly: str) -> dict[str, int]:
    """Figures of the `.amdgpu_metadata` block: vgpr_count, vgpr_spill_count and the like."""
    block = assembly.partition(".amdgpu_metadata")[2].partition(".end_amdgpu_metadata")[0]
    return {name: int(number) for name, number in _META.findall(block)}


def instructions(assembly: str) -> list[str]:
    """Names of the instructions, in order."""
    code = assembly.partition(".amdgpu_metadata")[0]
    kept = (line.partition(";")[0] for line in code.splitlines())
    return _INSTRUCTION.findall("\n".join(kept))


def counts(names: list[str]) -> dict[str, int]:
    """Loads, copies and accesses among instructions, by the names of `Figures`."""
    loads = [found for found in map(_LOAD.match, names) if found]
    wide = [found for found in loads if _DWORD * int(found[1] or 1) >= _WIDE_BITS]
    return {
        "instructions": sum(name != "s_nop" for name in names),
        "wide_loads": len(wide),
        "narrow_loads": len(loads) - len(wide),
        "async_copies": sum(found.string.endswith("_lds") for found in loads),
        "local_accesses": sum(name.startswith("scratch_") for name in names),
    }


def tensor_core(names: list[str]) -> dict[str, int]:
    """Instructions of matrix units."""
    number = sum(name.startswith(("v_mfma_", "v_smfmac_")) for name in names)
    return {"mfma": number} if number else {}


def spill_bytes(resources: dict[str, int]) -> int:
    """Bytes of memory a thread that registers were spilled to.

    Scalar registers are spilled to lanes of vector registers, which costs no memory: not counted.
    """
    return max(resources.get("private_segment_fixed_size", 0), 4 * resources["vgpr_spill_count"])
