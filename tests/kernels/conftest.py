"""Tests of kernels: inputs of a shape, and the numeric gate held over an implementation.

Those in `interpreted/` need TRITON_INTERPRET=1 before triton is imported: triton decides then
whether its functions are compiled or interpreted, so one process can do only one of them.
`test_kernel_interpreter.py` runs that folder in a process of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.gates.tolerance import check_output
from harness.kernel import KernelSpec, outputs
from harness.technique import load

collect_ignore = [] if os.environ.get("TRITON_INTERPRET") == "1" else ["interpreted"]


def pytest_make_parametrize_id(val: object) -> str | None:
    """Readable ids of shapes: the numbers that are not zero."""
    if isinstance(val, Mapping):
        return "-".join(f"{name}{number}" for name, number in val.items() if number)
    return None


@pytest.fixture
def draw() -> Callable[..., Any]:
    """draw(spec, shape, dtype, device="cpu", seed=0) -> Inputs, the same for the same seed."""

    def function(
        spec: KernelSpec,
        shape: Mapping[str, int],
        dtype: torch.dtype,
        device: str = "cpu",
        seed: int = 0,
    ) -> Any:
        generator = torch.Generator(device).manual_seed(seed)
        return load(spec.inputs)(shape, dtype, generator, device)

    return function


@pytest.fixture
def complaints() -> Callable[..., list[str]]:
    """complaints(spec, inputs, candidate) -> what the numeric gate says against it; [] passes."""

    def function(spec: KernelSpec, inputs: Any, candidate: Callable[..., Any]) -> list[str]:
        reference = load(spec.reference)
        # The candidate goes last: it may write to its inputs.
        exact = outputs(reference(*map(_widened, inputs)))
        trusted = outputs(reference(*inputs))
        given = outputs(candidate(*inputs))
        if len(given) != len(exact):
            return [f"{len(given)} outputs, the reference has {len(exact)}"]
        return [
            f"{r.name} of output {i}: {r.observed} > {r.bound}"
            for i, (one, low, high) in enumerate(zip(given, trusted, exact, strict=True))
            for r in check_output(one, low, high)
            if not r.passed
        ]

    return function


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill every new floating-point tensor with NaN, so that an output left unwritten shows."""
    empty = torch.empty

    def filled(*args: Any, **kwargs: Any) -> Tensor:
        made = empty(*args, **kwargs)
        return made.fill_(float("nan")) if made.is_floating_point() else made

    monkeypatch.setattr(torch, "empty", filled)


def _widened(value: Any) -> Any:
    floating = isinstance(value, Tensor) and value.is_floating_point()
    return value.double() if floating else value
