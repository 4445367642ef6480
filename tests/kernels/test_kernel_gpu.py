"""Kernels on a device: values in every dtype, against the reference and against eager."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from harness import registry
from harness.technique import load

NAMES = [name for name in registry.kernel_names() if registry.kernel(name).triton is not None]
SHAPES = [(name, shape) for name in NAMES for shape in registry.kernel(name).shapes["test"]]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("poisoned")]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("backend", ["triton", "eager"])
@pytest.mark.parametrize(("name", "shape"), SHAPES)
def test_on_a_device(
    name: str,
    shape: Mapping[str, int],
    backend: str,
    dtype: torch.dtype,
    draw: Callable[..., Any],
    complaints: Callable[..., list[str]],
) -> None:
    spec = registry.kernel(name)
    inputs = draw(spec, shape, dtype, device="cuda")
    assert complaints(spec, inputs, load(getattr(spec, backend))) == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_triton_equals_eager_at_published_shapes(
    name: str, dtype: torch.dtype, draw: Callable[..., Any]
) -> None:
    """The reference is too slow there: both backends must agree to the roundings of the dtype."""
    spec = registry.kernel(name)
    for shape in spec.shapes["bench"]:
        small = {**shape, "B": min(shape["B"], 4)}
        inputs = draw(spec, small, dtype, device="cuda")
        one, other = load(spec.triton or "")(*inputs), load(spec.eager)(*inputs)
        largest = other.float().abs().max()
        assert (one.float() - other.float()).abs().max() <= 4 * torch.finfo(dtype).eps * largest
