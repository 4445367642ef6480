"""What is read off one compiled Triton function: records, as they are cached and printed."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from harness.records import Record

# Raised when figures are read differently: what was cached before is then read anew.
FORMAT_VERSION = 1


class UnitName(Record):
    """Which function of which configuration of which kernel, for which target."""

    kernel: str
    config: int  # the place in the spec's `aot`
    target: str
    function: str

    @property
    def title(self) -> str:
        """For a line."""
        return f"{self.kernel} {self.function} on {self.target}"


class Figures(Record):
    """Machine code in numbers. A warp is what the target executes together: 32 or 64 threads."""

    registers: int  # a thread
    spill_bytes: int  # a thread; 0 where every value has a register
    shared_bytes: int  # a block
    warps: int  # a block
    occupancy: float  # resident warps / warps that the unit can hold, by resources alone
    limited_by: str  # what allows no more: "registers", "shared memory", "warps", "blocks"
    instructions: int
    wide_loads: int  # global loads of 128 bits and more, asynchronous and bulk copies included
    narrow_loads: int  # all other global loads
    async_copies: int  # global to shared memory without a register in between
    tensor_core: dict[str, int] = Field(default_factory=dict)  # "mma", "wgmma", "tcgen05", "mfma"
    local_accesses: int  # instructions that read or write memory private to a thread
    # Argument -> width of a load in bits -> how many there are.
    operands: dict[str, dict[int, int]] = Field(default_factory=dict)


class Compiled(Record):
    """One unit and what came of it: figures, or the sentence that says why there are none."""

    unit: UnitName
    title: str  # the configuration, "B64 S8192 N32 K8 H128 splits 4 bfloat16"
    sizes: dict[str, int]
    options: dict[str, Any]
    dtype: str
    launch: dict[str, Any] = Field(default_factory=dict)  # constants, warps and stages
    absent: tuple[str, ...] = ()  # arguments that this configuration compiles in, such as None
    figures: Figures | None = None
    error: str | None = None
    unsupported: str | None = None  # the spec's reason why this target cannot have it
