"""The kernel contract: one folder a kernel, one spec, three implementations of one signature.

`kernels/<name>/__init__.py` ends with `SPEC = KernelSpec(...)` and imports neither torch nor
triton. From the spec come the numerical tests, the microbenchmarks and ahead-of-time compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.cost import Cost
from harness.technique import load


@dataclass(frozen=True)
class Claims:
    """What the static gate holds a compiled kernel to."""

    vector_loads: tuple[str, ...] = ()  # operands that must be read in 128-bit pieces
    tensor_cores: bool = False
    spills: int = 0


@dataclass(frozen=True)
class KernelSpec:
    """One kernel. `inputs`, `reference`, `eager` and `triton` are "module:function" names.

    inputs(shape, dtype, generator, device) -> Inputs, a NamedTuple; the only source of randomness.
    reference, eager and triton take the fields of Inputs in order and return the same outputs;
    reference computes in the dtype of its inputs (give it float64 for the exact answer).
    """

    name: str
    summary: str
    lecture: str
    sources: tuple[str, ...]
    inputs: str
    reference: str
    eager: str
    triton: str | None
    cost: Callable[[Mapping[str, int], str], Cost]
    shapes: Mapping[str, tuple[Mapping[str, int], ...]]  # "test", "bench", "aot"
    claims: Claims = field(default_factory=Claims)


def implementation(spec: KernelSpec, backend: str) -> tuple[str, Callable[..., Any]]:
    """The implementation for a backend and the name to record: ("triton", fn) or ("torch", fn).

    A kernel without a Triton form answers "torch" for both backends; the run records that.
    """
    if backend == "triton" and spec.triton is not None:
        return "triton", load(spec.triton)
    return "torch", load(spec.eager)
