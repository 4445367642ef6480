"""The kernel contract: one folder a kernel, one spec, three implementations of one signature.

`kernels/<name>/__init__.py` ends with `SPEC = KernelSpec(...)` and imports neither torch nor
triton. From the spec come the numerical tests, the microbenchmarks, tuning and ahead-of-time
compilation.

How a configuration is compiled without a device: its launcher is called with inputs on device
"meta" (`inputs(shape, dtype, generator, "meta")`: shapes, strides and dtypes of the call, no data,
and quick at any size) while `harness.launch.recording(target)` keeps each launch of a Triton
function instead of making it. So the launcher's own arguments decide the signature, the constants,
the divisibility, the warps and the stages: what is compiled is what ships. A launcher keeps to:

- `harness.launch.require(...)` says which devices and dtypes it runs on; it lets "meta" through
  while launches are recorded, and refuses bfloat16 in Triton's interpreter.
- Numbers of the device come from `harness.launch.target(device)`, which is the target compiled for
  while launches are recorded.
- A keyword `config: Mapping[str, int] | None = None` takes tile sizes and launch options whole;
  None takes the kernel's tuned table (`harness.launch.tuned`), and where that has no row for the
  architecture, a default.
- The values of tensors are never consulted: a "meta" tensor has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, NamedTuple

from harness.cost import Cost
from harness.errors import UnfitError
from harness.technique import load


@dataclass(frozen=True)
class Claims:
    """What the static gate holds one Triton function to, wherever a configuration launches it.

    vector_loads: pointer arguments of which every global read must be 128 bits wide. Asynchronous
    copies and bulk copies through a tensor descriptor count.
    tensor_cores: a matrix product runs on matrix units; in float32, whose products are exact here
    and use none, this is not asked.
    """

    vector_loads: tuple[str, ...] = ()
    tensor_cores: bool = False
    spills: int = 0  # bytes a thread, at most


@dataclass(frozen=True)
class AotConfig:
    """One call that is compiled ahead of time for every target; it may launch several functions.

    Sizes matter only as far as they change what is compiled (constants, divisibility by 16, being
    1), so that published sizes are as good as small ones: nothing is allocated.
    """

    shape: Mapping[str, int]
    dtype: str = "bfloat16"
    # Keywords of the launcher: numbers and flags, because they are part of the stored case.
    options: Mapping[str, Any] = field(default_factory=dict)
    # Targets that cannot have this, "sm_80" -> the reason; shown, neither compiled nor gated.
    unsupported: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Tuning:
    """What `harness kernels tune` may choose among.

    candidates(shape, dtype, arch) -> values of the launcher's `config`, the default first;
    a "module:function" name. bucket(shape) names the row of the table that a shape falls into:
    few rows, told apart by what changes the best choice.
    """

    candidates: str
    bucket: Callable[[Mapping[str, int]], str]


class Peer(NamedTuple):
    """Another maker's implementation on some inputs, ready to be timed."""

    call: Callable[[], Any]  # what is timed
    outputs: Callable[[Any], Any]  # what it gave in the form of the kernel's own; not timed


@dataclass(frozen=True)
class Peers:
    """Who else computes what a kernel does, by names of `harness.metrics.PEERS`.

    make(inputs) -> {name: a function that gives its Peer}, a "module:function" name. Layouts that a
    peer wants are made there, outside of what is timed. UnfitError, of `make` or of one function,
    says what cannot be computed so.
    """

    names: tuple[str, ...]
    make: str


@dataclass(frozen=True)
class KernelSpec:
    """One kernel. `inputs`, `reference`, `eager` and `triton` are "module:function" names.

    inputs(shape, dtype, generator, device) -> Inputs, a NamedTuple; the only source of randomness,
    which is drawn where the generator is.
    reference, eager and triton take the fields of Inputs in order and return the same outputs, a
    tensor or a tuple of tensors; reference computes in the dtype of its inputs (give it float64
    for the exact answer).
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
    shapes: Mapping[str, tuple[Mapping[str, int], ...]]  # "test", "bench"
    aot: tuple[AotConfig, ...] = ()  # at most 8; empty without a Triton form
    claims: Mapping[str, Claims] = field(default_factory=dict)  # by name of the Triton function
    tuning: Tuning | None = None
    peers: Peers | None = None


def compiled(formula: Callable[..., Any], inputs: tuple[Any, ...]) -> Peer:
    """A formula under `torch.compile` on some inputs; its outputs are in the kernel's form."""
    return Peer(partial(_compiled(formula), *inputs), lambda returned: returned)


@cache
def _compiled(formula: Callable[..., Any]) -> Callable[..., Any]:
    # By name, as everything heavy here: a listing reads this module.
    function: Callable[..., Any] = load("torch:compile")(formula, dynamic=False)
    return function


def implementation(spec: KernelSpec, backend: str) -> tuple[str, Callable[..., Any]]:
    """The implementation for a backend and the name to record: ("triton", fn) or ("torch", fn).

    A kernel without a Triton form answers "torch" for both backends; the run records that.

    Raises:
        UnfitError: Triton is wanted and not installed.
    """
    if backend == "triton" and spec.triton is not None:
        if find_spec("triton") is None:
            raise UnfitError(
                "backend 'triton' needs Triton, which is not installed; it exists on Linux: "
                "pip install -c constraints.txt triton. Backend 'torch' runs without it"
            )
        return "triton", load(spec.triton)
    return "torch", load(spec.eager)


def outputs(returned: Any) -> tuple[Any, ...]:
    """What an implementation returned, as a tuple of tensors."""
    return returned if isinstance(returned, tuple) else (returned,)
