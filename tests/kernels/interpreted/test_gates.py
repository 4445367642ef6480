"""Every Triton kernel at every test shape of its spec, by Triton's interpreter.

float32 against float64 has the teeth, float16 runs beside it; see `harness.gates.kernel` for what
else is looked at. CI takes all shapes in float32 and a part of them in float16:
`tests/acceptance/kernel_gates.py` takes everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from harness import registry
from harness.errors import UnfitError
from harness.gates.kernel import complaints
from harness.technique import load

NAMES = [name for name in registry.kernel_names() if registry.kernel(name).triton is not None]
SHAPES = [(name, shape) for name in NAMES for shape in registry.kernel(name).shapes["test"]]
# In float16 the same code runs with other roundings: every third shape, from each kernel some.
HALF = SHAPES[::3]


def said(name: str, shape: Mapping[str, int], dtype: torch.dtype) -> list[str]:
    spec = registry.kernel(name)
    return complaints(spec, shape, dtype, load(spec.triton or ""))


@pytest.mark.parametrize(("name", "shape"), SHAPES)
def test_float32_against_float64(name: str, shape: Mapping[str, int]) -> None:
    assert said(name, shape, torch.float32) == []


@pytest.mark.parametrize(("name", "shape"), HALF)
def test_float16(name: str, shape: Mapping[str, int]) -> None:
    assert said(name, shape, torch.float16) == []


@pytest.mark.parametrize("name", NAMES)
def test_bfloat16_is_refused_with_the_reason(name: str, draw: Callable[..., Any]) -> None:
    """The interpreter computes it wrongly without saying so."""
    spec = registry.kernel(name)
    with pytest.raises(UnfitError, match="interpreter computes bfloat16 wrongly"):
        load(spec.triton or "")(*draw(spec, spec.shapes["test"][0], torch.bfloat16))


def test_every_kernel_is_there() -> None:
    assert {"prefill_attention", "decode_attention"} <= set(NAMES)
    assert {name for name, _ in HALF} == set(NAMES)
