"""One contract test over all kernels: adding a kernel folder adds its tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch

from harness import registry
from harness.kernel import outputs
from harness.technique import load

NAMES = registry.kernel_names()
SHAPES = [(name, shape) for name in NAMES for shape in registry.kernel(name).shapes["test"]]
LISTED = ("test", "bench")


def test_there_are_kernels() -> None:
    assert "decode_attention" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_spec_is_complete(name: str) -> None:
    spec = registry.kernel(name)
    assert spec.name == name
    assert spec.summary
    assert spec.sources
    assert set(spec.shapes) == set(LISTED)
    assert all(spec.shapes[kind] for kind in LISTED)
    assert (spec.triton is None) == (not spec.aot) == (not spec.claims)
    assert len(spec.aot) <= 8
    assert all(set(config.shape) == set(spec.shapes["test"][0]) for config in spec.aot)


@pytest.mark.parametrize("name", NAMES)
def test_implementations_take_the_fields_of_the_inputs_in_order(
    name: str, draw: Callable[..., Any]
) -> None:
    spec = registry.kernel(name)
    fields = list(draw(spec, spec.shapes["test"][0], torch.float32)._fields)
    targets = [spec.reference, spec.eager]
    if sys.platform == "linux" and spec.triton is not None:
        targets.append(spec.triton)
    for target in targets:
        parameters = signature(load(target)).parameters
        positional = [p.name for p in parameters.values() if p.kind is not p.KEYWORD_ONLY]
        assert positional == fields, target


@pytest.mark.parametrize("name", NAMES)
def test_importing_a_spec_imports_nothing_heavy(name: str) -> None:
    program = (
        f"import sys, harness.kernels.{name}\n"
        "assert not {'torch', 'triton', 'numpy'} & set(sys.modules), sorted(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-P", "-c", program], check=True)


@pytest.mark.parametrize("name", NAMES)
def test_cost_is_positive_and_counts_bytes_of_the_dtype(name: str) -> None:
    spec = registry.kernel(name)
    for shape in (*spec.shapes["bench"], *(config.shape for config in spec.aot)):
        wide, narrow = spec.cost(shape, "float32"), spec.cost(shape, "bfloat16")
        # A table in float32 has its size whatever the dtype is.
        assert 2 * narrow.bytes >= wide.bytes > narrow.bytes > 0
        assert wide.flops == narrow.flops


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_draws_the_same_inputs_and_another_others(
    name: str, draw: Callable[..., Any]
) -> None:
    spec = registry.kernel(name)
    shape = spec.shapes["test"][-1]
    first, again, other = (draw(spec, shape, torch.float32, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first[0], again[0])
    assert not torch.equal(first[0], other[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("name", "shape"), SHAPES)
def test_eager_passes_the_numeric_gate(
    name: str,
    shape: Mapping[str, int],
    dtype: torch.dtype,
    draw: Callable[..., Any],
    complaints: Callable[..., list[str]],
) -> None:
    spec = registry.kernel(name)
    assert complaints(spec, draw(spec, shape, dtype), load(spec.eager)) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_gate_refuses_a_kernel_that_writes_nothing(
    name: str, draw: Callable[..., Any], complaints: Callable[..., list[str]], poisoned: None
) -> None:
    spec = registry.kernel(name)
    inputs = draw(spec, spec.shapes["test"][1], torch.float32)
    right = outputs(load(spec.reference)(*inputs))
    for nothing in (torch.empty_like, torch.zeros_like):
        left_out = tuple(map(nothing, right))
        assert complaints(spec, inputs, lambda *_, told=left_out: told)
    assert complaints(spec, inputs, lambda *_: (*right, right[0])), "an output too many"


def test_decode_attention_intensity_is_the_group_whatever_the_batch() -> None:
    """Lecture 2.3: ST/(S+T) FLOPs a byte in 16 bits, with the T = N/K rows of a group."""
    spec = registry.kernel("decode_attention")
    for B in (1, 64):
        for N, K in ((32, 32), (32, 8)):
            shape = {"B": B, "S": 8192, "N": N, "K": K, "H": 128}
            T = N // K
            expected = 8192 * T / (8192 + T)
            assert spec.cost(shape, "bfloat16").intensity == pytest.approx(expected)


def test_no_second_import_name_for_kernels() -> None:
    """The symlink gives one name only: two would split a module's objects."""
    assert Path(registry.__file__).with_name("kernels").is_symlink()
    assert not [name for name in sys.modules if name.split(".")[0] == "kernels"]
