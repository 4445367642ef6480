"""The numeric gate passes a right output and fails every broken twin of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from harness.gates.tolerance import bounds, check_numeric, errors, own_errors
from harness.run import GateResult

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def rms_norm(x: Tensor, eps: float = 1e-6, columns: int | None = None) -> Tensor:
    """x / sqrt(mean(x^2) + eps), in x's dtype."""
    kept = x if columns is None else x[:, :columns]
    return x / torch.sqrt((kept * kept).mean(-1, keepdim=True) + eps)


def other_order(x: Tensor) -> Tensor:
    """The same function summed the other way round: right, and not bitwise equal."""
    squares = (x * x).flip(-1).view(len(x), 4, -1).sum(-1).sum(-1, keepdim=True)
    return x * torch.rsqrt(squares / x.shape[-1] + 1e-6)


@pytest.fixture(scope="module")
def inputs() -> Tensor:
    # Small numbers, so that eps matters.
    return torch.randn(64, 512, generator=torch.Generator().manual_seed(0)) * 0.5


def gates(output: Tensor, x: Tensor, dtype: torch.dtype) -> dict[str, GateResult]:
    timed = x.to(dtype)
    exact, trusted = rms_norm(timed.double()), rms_norm(timed)
    return {gate.name: gate for gate in check_numeric(output, trusted, exact, dtype)}


def passes(output: Tensor, x: Tensor, dtype: torch.dtype = torch.float32) -> bool:
    return all(gate.passed for gate in gates(output, x, dtype).values())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_another_order_of_summation_passes(inputs: Tensor, dtype: torch.dtype) -> None:
    assert passes(other_order(inputs.to(dtype)), inputs, dtype)


@pytest.mark.parametrize(
    "broken",
    [
        lambda x: rms_norm(x, eps=1e-2),
        lambda x: rms_norm(x, columns=509),
        lambda x: rms_norm(x).index_put((torch.tensor(3), torch.tensor(5)), torch.tensor(0.0)),
        lambda x: rms_norm(x).roll(1, 0),
        lambda x: rms_norm(x).roll(1, 1),
        lambda x: -rms_norm(x),
    ],
    ids=["eps", "columns left out", "one zero", "other row", "other column", "sign"],
)
def test_broken_twins_fail_in_float32(inputs: Tensor, broken: Callable[[Tensor], Tensor]) -> None:
    """These include the ones that no tolerance of a 16-bit dtype could tell."""
    assert not passes(broken(inputs), inputs)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("everywhere", [True, False])
def test_output_that_is_not_finite_fails(
    inputs: Tensor, dtype: torch.dtype, value: float, everywhere: bool
) -> None:
    """KernelBench#82: poisoned memory that was never written, all of it or one element."""
    output = rms_norm(inputs.to(dtype))
    if everywhere:
        output.fill_(value)
    else:
        output[1, 2] = value
    found = gates(output, inputs, dtype)
    assert not found["numeric_max"].passed
    assert not found["numeric_rms"].passed
    assert found["numeric_max"].observed is None
    assert "observed is" in found["numeric_max"].detail


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_zeros_fail(inputs: Tensor, dtype: torch.dtype) -> None:
    """KernelBench#165: a fixed tolerance lets zeros pass where outputs are small."""
    for scale in (1.0, 1e-3):
        exact = rms_norm(inputs.to(dtype).double()) * scale
        trusted = rms_norm(inputs.to(dtype)) * scale
        found = check_numeric(torch.zeros_like(trusted), trusted, exact, dtype)
        assert not found[0].passed


@pytest.mark.parametrize("which", ["exact", "trusted"])
def test_a_reference_that_is_not_finite_fails(inputs: Tensor, which: str) -> None:
    """flashinfer-bench: NaN in the reference must not pass, not even against an equal NaN."""
    exact, trusted = rms_norm(inputs.double()), rms_norm(inputs)
    (exact if which == "exact" else trusted)[0, 0] = torch.nan
    found = check_numeric(trusted.clone(), trusted, exact, torch.float32)
    assert not any(gate.passed for gate in found)
    assert "reference is not finite" in found[0].detail


@pytest.mark.parametrize("exact", [torch.zeros(4, 8), torch.full((4, 8), 2.5)])
def test_a_gate_that_cannot_tell_fails_itself(exact: Tensor) -> None:
    """Where zeros or a shuffled output would pass, so would anything of that kind."""
    found = check_numeric(exact.float(), exact.float(), exact.double(), torch.float32)
    assert found[0].passed
    assert not found[2].passed
    assert "would pass" in found[2].detail


def test_a_wrong_shape_fails(inputs: Tensor) -> None:
    exact, trusted = rms_norm(inputs.double()), rms_norm(inputs)
    for output in (trusted[:-1], trusted[None], trusted.T):
        assert not any(g.passed for g in check_numeric(output, trusted, exact, torch.float32))


def test_the_bound_is_twice_the_references_own_error_and_a_floor() -> None:
    exact = torch.tensor([[1.0, 2.0, 4.0]], dtype=torch.float64)
    trusted = torch.tensor([[1.0, 2.0, 4.5]], dtype=torch.float64)
    found = bounds(errors(trusted, exact), exact, torch.float32)
    eps = torch.finfo(torch.float32).eps
    assert found.max == pytest.approx(2 * 0.5 + 2 * eps * 4)
    assert found.rms == pytest.approx(2 * 0.5 / 3**0.5 + 2 * eps * 7**0.5)
    assert errors(trusted, exact).max == 0.5


def test_the_references_error_on_few_rows_is_that_of_its_worst_few() -> None:
    """Row 2 is off by 3, row 3 by 4, the others are exact."""
    exact = torch.zeros(6, 2, dtype=torch.float64)
    trusted = exact + torch.tensor([0.0, 0.0, 3.0, 4.0, 0.0, 0.0])[:, None]
    for rows, rms in (
        (1, 4.0),
        (2, 12.5**0.5),
        (4, 2.5),
        (6, (25 / 6) ** 0.5),
        (9, (25 / 6) ** 0.5),
    ):
        found = own_errors(trusted, exact, rows)
        assert found.max == 4.0
        assert found.rms == pytest.approx(rms)


def test_a_reference_that_fails_where_nobody_looks_fails(inputs: Tensor) -> None:
    """An own error of NaN is no bound."""
    exact, trusted = rms_norm(inputs.double()), rms_norm(inputs)
    wide = trusted.clone()
    wide[0, 0] = torch.nan
    own = own_errors(wide, exact, 4)
    found = check_numeric(trusted[9:], trusted[9:], exact[9:], torch.float32, own=own)
    assert not found[0].passed
    assert not found[1].passed
