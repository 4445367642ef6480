"""What launchers of Triton kernels share: where they may run, for which target, with which tiles.

Imports neither torch nor triton until it is called.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from harness.errors import UnfitError
from harness.target import TARGETS, Target

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_KERNELS = Path(__file__).parent / "kernels"
# What the interpreter pretends to be: few units, so that small tests meet several splits.
INTERPRETED = "interpreter"
_NOMINAL = 16


@dataclass(frozen=True)
class Launch:
    """One launch that was recorded instead of made."""

    function: Any  # the triton.JITFunction
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]  # constants, num_warps, num_stages


@dataclass(frozen=True)
class Device:
    """What a launcher may choose by."""

    arch: str  # "sm_90", "gfx942"; INTERPRETED where Triton interprets
    units: int  # multiprocessors or compute units
    warp: int = 32  # threads

    def warps(self, threads: int) -> int:
        """Warps that have so many threads; at least one."""
        return max(1, threads // self.warp)


_recorded: ContextVar[tuple[Target, list[Launch]] | None] = ContextVar("recorded", default=None)


@contextmanager
def recording(target: Target) -> Iterator[list[Launch]]:
    """Keep launches of Triton functions instead of making them, as if on that target.

    For calls with "meta" tensors, in a process where Triton compiles. Nothing runs on a device.
    """
    from triton.runtime.jit import JITFunction

    launches: list[Launch] = []

    def keep(function: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> None:
        del warmup
        launches.append(Launch(function, tuple(grid), args, kwargs))

    made = JITFunction.run
    token = _recorded.set((target, launches))
    JITFunction.run = keep
    try:
        yield launches
    finally:
        JITFunction.run = made
        _recorded.reset(token)


def target(device: torch.device) -> Device:
    """What launches on that device are for: while they are recorded, the target compiled for."""
    recorded = _recorded.get()
    if recorded is not None:
        return described(recorded[0].arch)
    return _device(device) if device.type == "cuda" else Device(INTERPRETED, _NOMINAL)


def described(arch: str) -> Device:
    """A device of that architecture, as far as it is known."""
    known = TARGETS.get(arch)
    return Device(arch, _NOMINAL) if known is None else Device(arch, known.units, known.warp)


@cache
def _device(device: torch.device) -> Device:
    import torch

    facts = torch.cuda.get_device_properties(device)
    if torch.version.hip:
        arch = facts.gcnArchName.partition(":")[0]
        return Device(arch, facts.multi_processor_count, facts.warp_size)
    return Device(f"sm_{facts.major}{facts.minor}", facts.multi_processor_count)


def available() -> bool:
    """Whether Triton is installed; found, not imported."""
    return find_spec("triton") is not None


@cache
def interpreted() -> bool:
    """Whether Triton interprets in this process: it decides so when it is imported."""
    import triton

    return bool(triton.knobs.runtime.interpret)


def require(kernel: str, tensor: Tensor, dtypes: Sequence[torch.dtype]) -> None:
    """Refuse what no Triton kernel of that name can run on.

    Raises:
        UnfitError: a CPU without the interpreter, bfloat16 in the interpreter, another dtype.
    """
    if interpreted():
        if str(tensor.dtype) == "torch.bfloat16":
            raise UnfitError(
                "Triton's interpreter computes bfloat16 wrongly without saying so (matrix products "
                f"are off by orders of magnitude), so {kernel} refuses it there; use float32 or "
                "float16, or run on a GPU"
            )
    elif tensor.device.type != "cuda" and _recorded.get() is None:
        raise UnfitError(
            f"{kernel} on backend 'triton' needs a GPU, and its input is on '{tensor.device}'; use "
            "backend 'torch', or set TRITON_INTERPRET=1 to check values on a CPU"
        )
    if tensor.dtype not in dtypes:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise UnfitError(f"{kernel} has no kernel for {tensor.dtype}; known: {known}")


def tuned(kernel: str, arch: str, dtype: str, bucket: str) -> Mapping[str, int] | None:
    """The row of `kernels/<kernel>/tuned.json` for these, or None; reading it is a look-up."""
    return _table(kernel).get((arch, dtype, bucket))


def table_file(kernel: str) -> Path:
    """Where a kernel's tuned table lies, or would: beside the kernel."""
    return _KERNELS / kernel / "tuned.json"


@cache
def _table(kernel: str) -> Mapping[tuple[str, str, str], Mapping[str, int]]:
    path = table_file(kernel)
    if not path.is_file():
        return MappingProxyType({})
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {(row["arch"], row["dtype"], row["bucket"]): row["config"] for row in rows}
