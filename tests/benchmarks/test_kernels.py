"""Every kernel at its published shapes: seconds a call, GB/s and TFLOP/s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
import torch

from harness import registry
from harness.interop.pytest_benchmark.gpu import Cuda, timed
from harness.kernel import KernelSpec
from harness.technique import load

# A benchmark takes many rounds: on a CPU a call beyond these takes a second or fills the memory.
CPU_BYTES, CPU_FLOPS = 256e6, 4e9


class Call(NamedTuple):
    """What one benchmark calls."""

    spec: KernelSpec
    shape: Mapping[str, int]
    backend: str  # "eager" or "triton"
    dtype: str

    @property
    def title(self) -> str:
        sizes = "-".join(f"{letter}{size}" for letter, size in self.shape.items() if size)
        return f"{self.spec.name}-{sizes}-{self.backend}-{self.dtype}"


def shapes(spec: KernelSpec, *, gpu: bool) -> list[Mapping[str, int]]:
    """The published shapes; on a CPU those that it can repeat, or else the largest of the tests."""
    published = list(spec.shapes["bench"])
    work = {i: spec.cost(shape, "float32") for i, shape in enumerate(published)}
    fitting = [
        shape
        for i, shape in enumerate(published)
        if gpu or (work[i].bytes <= CPU_BYTES and work[i].flops <= CPU_FLOPS)
    ]
    return fitting or [
        max(spec.shapes["test"], key=lambda shape: spec.cost(shape, "float32").bytes)
    ]


def calls(*, gpu: bool, once: bool) -> list[Call]:
    """Every benchmark; `once` is the smallest of each kernel, to be called a single time."""
    found = []
    for spec in map(registry.kernel, registry.kernel_names()):
        chosen = [spec.shapes["test"][0]] if once else shapes(spec, gpu=gpu)
        backends = ["eager", "triton"] if gpu and spec.triton else ["eager"]
        dtype = "bfloat16" if gpu else "float32"
        found += [Call(spec, shape, backend, dtype) for shape in chosen for backend in backends]
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "call" in metafunc.fixturenames:
        once = not metafunc.config.getoption("benchmark_only")
        found = calls(gpu=torch.cuda.is_available(), once=once)
        metafunc.parametrize("call", found, ids=[call.title for call in found])


def test_kernel(benchmark: Any, request: pytest.FixtureRequest, call: Call) -> None:
    gpu = torch.cuda.is_available()
    device, dtype = "cuda" if gpu else "cpu", getattr(torch, call.dtype)
    # Drawn where they are used: a processor would take minutes for published sizes.
    inputs = load(call.spec.inputs)(
        call.shape, dtype, torch.Generator(device).manual_seed(0), device
    )
    function = load(getattr(call.spec, call.backend))
    benchmark.disabled = not request.config.getoption("benchmark_only")
    benchmark.group = f"{call.spec.name}-{call.dtype}"
    with torch.inference_mode():
        if gpu:
            # Nobody waits between flush and call, so that the launch hides behind the flush.
            returned = timed(benchmark, Cuda(), function, *inputs)
        else:
            returned = benchmark(function, *inputs)
    first = returned[0] if isinstance(returned, tuple) else returned
    assert torch.isfinite(first).all()
    if benchmark.stats is not None:
        work, seconds = call.spec.cost(call.shape, call.dtype), benchmark.stats.stats.median
        rates = {"GB/s": work.bytes / seconds / 1e9, "TFLOP/s": work.flops / seconds / 1e12}
        benchmark.extra_info.update({**call.shape, **rates})


def test_each_kernel_has_benchmarks_that_a_cpu_can_repeat() -> None:
    on_cpu, on_gpu = calls(gpu=False, once=False), calls(gpu=True, once=False)
    assert {call.spec.name for call in on_cpu} == set(registry.kernel_names())
    assert all(call.spec.cost(call.shape, "float32").bytes <= CPU_BYTES for call in on_cpu)
    triton = {call.spec.name for call in on_gpu if call.backend == "triton"}
    assert triton == {name for name in registry.kernel_names() if registry.kernel(name).triton}
