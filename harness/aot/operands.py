"""How wide each argument is read: pointers followed from the arguments to the loads.

In PTX and in LLVM's text a pointer argument is a value, and addresses are made from it by
arithmetic. Whatever is computed from an argument's value belongs to it, except what a load
returns: a page number read from a table makes no address of the table's. Loop-carried values have
several origins, so origins are gathered until nothing changes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

Widths = dict[str, dict[int, int]]  # argument -> bits of a load -> loads

_PTX_LINE = re.compile(r"^\s*(?:@!?%p\d+\s+)?([a-z][\w.:]*)\s+(.*?);?\s*(?://.*)?$")
_PTX_REGISTER = re.compile(r"%[a-z]+\d+")
_PTX_PARAMETER = re.compile(r"\[\w+_param_(\d+)\]")
_PTX_ADDRESS = re.compile(r"\[\s*(%rd\d+)")
_LLVM_VALUE = re.compile(r"%[\w.]+")
_LLVM_TYPE = re.compile(r"(?:<(\d+) x )?\b(?:i(\d+)|(half|bfloat|float|double|ptr))\b")
_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64}


def ptx_widths(ptx: str, arguments: Sequence[str | None]) -> Widths:
    """Loads from global memory in PTX, asynchronous copies to shared memory included.

    `arguments` are those of the machine code in order, None for one that is no pointer.
    A bulk copy through a descriptor counts as 128 bits: the hardware moves whole rows.
    """
    origins: dict[str, set[str]] = defaultdict(set)
    moves: list[tuple[list[str], list[str]]] = []
    loads: list[tuple[str, int]] = []
    for line in ptx.splitlines():
        found = _PTX_LINE.match(line)
        if not found or found[1].startswith((".", "//")):
            continue
        operation, rest = found.groups()
        if operation.startswith("ld.param"):
            place = _PTX_PARAMETER.search(rest)
            target = _PTX_REGISTER.search(rest)
            # Behind the function's own arguments come the scratch pointers of Triton.
            name = arguments[int(place[1])] if place and int(place[1]) < len(arguments) else None
            if name and target:
                origins[target[0]].add(name)
        elif operation.startswith(("ld.", "cp.async")):
            address = _ptx_read(operation, rest)
            if address:
                loads.append((address, _ptx_bits(operation, rest)))
        elif not operation.startswith(("st.", "red.", "atom.")):
            registers = _PTX_REGISTER.findall(rest)
            # A value may be taken apart into several: mov.b64 {%r1, %r2}, %rd3.
            made = len(_PTX_REGISTER.findall(rest.partition("}")[0])) if rest[0] == "{" else 1
            moves.append((registers[:made], registers[made:]))
    return _widths(origins, moves, loads)


def _ptx_read(operation: str, rest: str) -> str | None:
    """The register that holds the global address a load or copy reads, or None."""
    addresses = _PTX_ADDRESS.findall(rest)
    if operation.startswith("cp.async"):
        # The first bracket is shared memory, a 32-bit register; commit and wait have none.
        return addresses[0] if addresses and ".global" in operation.partition("shared")[2] else None
    return addresses[0] if operation.startswith("ld.global") and addresses else None


def _ptx_bits(operation: str, rest: str) -> int:
    if operation.startswith("cp.async.bulk"):
        return 128
    if operation.startswith("cp.async"):
        size = re.search(r"\]\s*,\s*(0x[0-9a-f]+|\d+)", rest.partition("]")[2])
        return 8 * int(size[1], 0) if size else 0
    many = re.search(r"\.v(\d)", operation)
    bits = re.search(r"\.[a-z]+(\d+)$", operation)
    return (int(many[1]) if many else 1) * (int(bits[1]) if bits else 0)


def llvm_widths(text: str, arguments: Sequence[str | None]) -> Widths:
    """Loads from global memory in LLVM's text for AMD: plain loads and buffer loads.

    `arguments` as in `ptx_widths`.
    """
    origins: dict[str, set[str]] = defaultdict(set)
    moves: list[tuple[list[str], list[str]]] = []
    loads: list[tuple[str, int]] = []
    for line in text.splitlines():
        if line.startswith("define"):
            head = line[line.index("(") : line.rindex(")")]
            for name, value in zip(arguments, _LLVM_VALUE.findall(head), strict=False):
                if name:
                    origins[value].add(name)
            continue
        if "=" not in line and "buffer.load" not in line:
            continue
        result, _, rest = line.partition("=")
        if "buffer.load" in line and "call" in line:
            pointer = _LLVM_VALUE.findall(line[line.index("@") :])
            loads.append((pointer[0], _llvm_bits(line)))
        elif " load " in line:
            if "addrspace(1)" in line:
                loads.append((_LLVM_VALUE.findall(rest)[-1], _llvm_bits(line)))
        else:
            moves.append((_LLVM_VALUE.findall(result)[:1], _LLVM_VALUE.findall(rest)))
    return _widths(origins, moves, loads)


def _llvm_bits(line: str) -> int:
    """Bits of what a load returns; a copy to local memory says its size in bytes instead."""
    if ".lds" in line:
        size = re.search(r"ptr addrspace\(3\) %?\w+, i32 (\d+)", line)
        return 8 * int(size[1]) if size else 0
    found = _LLVM_TYPE.search(line.partition("=")[2].replace("tail ", ""))
    if not found:
        return 0
    many, bits, kind = found.groups()
    return int(many or 1) * (int(bits) if bits else _BITS[kind])


def _widths(
    origins: dict[str, set[str]],
    moves: Sequence[tuple[list[str], list[str]]],
    loads: Iterable[tuple[str, int]],
) -> Widths:
    """Widths by argument, once every value's origins are known."""
    changed = True
    while changed:
        changed = False
        for targets, sources in moves:
            for source in sources:
                for target in targets:
                    if origins.get(source, set()) - origins[target]:
                        origins[target] |= origins[source]
                        changed = True
    found: dict[str, Counter[int]] = defaultdict(Counter)
    for address, bits in loads:
        for argument in origins.get(address, set()):
            found[argument][bits] += 1
    return {argument: dict(sorted(widths.items())) for argument, widths in sorted(found.items())}
