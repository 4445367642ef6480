"""Machine code of NVIDIA targets: resources and instructions, by the tools in Triton's package.

`nvdisasm` takes about half a second to start and little to disassemble, so the code of many
functions goes through it at once, as one raw image: an instruction has 16 bytes on every target
from sm_70 on, so an address says whose it is.
"""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

import triton

from harness.errors import HarnessError
from harness.target import Target

_TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
_RESOURCE = re.compile(r"([A-Z]+):(\d+)")
_INSTRUCTION = re.compile(r"/\*([0-9a-f]+)\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)")
_PADDING = "NOP"
_WIDE = (".128", ".256")
_BULK = ("UBLKCP", "UTMALDG")
_TENSOR_CORE = (
    ("wgmma", re.compile(r"[HIQB]GMMA")),
    ("tcgen05", re.compile(r"UTC[A-Z]*MMA")),
    ("mma", re.compile(r"[HIQOBD]MMA")),
)


def resources(cubin: bytes) -> dict[str, int]:
    """REG, STACK and the like of a cubin with one function."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        told = _run("cuobjdump", "-res-usage", file.name)
    return {name: int(number) for name, number in _RESOURCE.findall(told.splitlines()[-1])}


def code(cubin: bytes) -> bytes:
    """The instructions of a cubin: the contents of its one `.text.` section.

    A cubin is an ELF64 file, little-endian: e_shoff at byte 40, e_shentsize, e_shnum and
    e_shstrndx from byte 58, 64 bytes a section header.
    """
    (offset,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQ", cubin, offset + i * size) for i in range(count)]
    strings = headers[names][4]
    found = [
        cubin[start : start + length]
        for name, _, _, _, start, length in headers
        if cubin.startswith(b".text.", strings + name)
    ]
    if len(found) != 1:
        raise HarnessError(f"a cubin holds {len(found)} functions where one was compiled")
    return found[0]


def disassembled(codes: Sequence[bytes], target: Target) -> list[list[str]]:
    """Names of the instructions of each piece of machine code, padding left out.

    Without control flow: what is branched around counts like everything else.
    """
    if not codes:
        return []
    starts = [sum(map(len, codes[:i])) for i in range(len(codes))]
    found: list[list[str]] = [[] for _ in codes]
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        file.write(b"".join(codes))
        file.flush()
        # What Hopper and Blackwell have beyond the portable set is only in the "a" variants.
        arch = target.arch.replace("sm_", "SM") + ("a" if target.capability >= 90 else "")
        told = _run("nvdisasm", "-b", arch, file.name)
    for address, name in _INSTRUCTION.findall(told):
        if name != _PADDING:
            found[bisect_right(starts, int(address, 16)) - 1].append(name)
    return found


def counts(names: Sequence[str]) -> dict[str, int]:
    """Loads, copies and accesses among instructions, by the names of `Figures`."""
    loads = [name for name in names if name.startswith(("LDG.", "LDGSTS."))]
    wide = [name for name in loads if name.endswith(_WIDE) or any(f"{w}." in name for w in _WIDE)]
    bulk = sum(name.startswith(_BULK) for name in names)
    return {
        "instructions": len(names),
        "wide_loads": len(wide) + bulk,
        "narrow_loads": len(loads) - len(wide),
        "async_copies": sum(name.startswith("LDGSTS.") for name in names) + bulk,
        "local_accesses": sum(name.startswith(("LDL", "STL")) for name in names),
    }


def tensor_core(names: Sequence[str]) -> dict[str, int]:
    """Instructions of matrix units by kind: mma of a warp, wgmma of four, tcgen05 of a block."""
    found = {
        kind: sum(pattern.match(name) is not None for name in names)
        for kind, pattern in _TENSOR_CORE
    }
    return {kind: number for kind, number in found.items() if number}


def _run(tool: str, *arguments: str) -> str:
    done = subprocess.run([_TOOLS / tool, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise HarnessError(f"{tool} in Triton's package failed: {done.stderr.strip()[:200]}")
    return done.stdout
