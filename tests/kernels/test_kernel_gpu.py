"""Kernels on a device: values in every dtype, against the reference computed there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from harness import registry
from harness.technique import load

NAMES = [name for name in registry.kernel_names() if registry.kernel(name).triton is not None]
SHAPES = [(name, shape) for name in NAMES for shape in registry.kernel(name).shapes["test"]]
PUBLISHED = [(name, shape) for name in NAMES for shape in registry.kernel(name).shapes["bench"]]
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


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("name", "shape"), PUBLISHED)
def test_published_shapes_on_a_device(
    name: str,
    shape: Mapping[str, int],
    dtype: torch.dtype,
    draw: Callable[..., Any],
    complaints: Callable[..., list[str]],
) -> None:
    """Of fewer sequences, so that three dtypes take no longer than the references must."""
    spec = registry.kernel(name)
    few = {letter: min(shape[letter], 2) for letter in ("B", "R") if letter in shape}
    inputs = draw(spec, {**shape, **few}, dtype, device="cuda")
    assert complaints(spec, inputs, load(spec.triton or "")) == []
