"""sample by Triton's interpreter: what its own contract adds to the gate on all kernels.

The tokens at every shape of the spec are held in `test_gates.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from harness import registry
from harness.errors import UnfitError
from harness.kernels.sample import eager
from harness.kernels.sample.inputs import Inputs, make
from harness.kernels.sample.kernel import sample

SPEC = registry.kernel("sample")
BOTH = next(shape for shape in SPEC.shapes["test"] if shape["k"] and shape["p"] and shape["R"] == 8)

pytestmark = pytest.mark.usefixtures("poisoned")


def test_rows_do_not_depend_on_their_neighbours(draw: Callable[..., Any]) -> None:
    inputs = draw(SPEC, BOTH, torch.float32)
    together = sample(*inputs)
    for r in range(0, BOTH["R"], 3):
        assert sample(*(each[r : r + 1] for each in inputs)) == together[r]


def test_no_temperatures_are_temperatures_of_zero(draw: Callable[..., Any]) -> None:
    inputs: Any = draw(SPEC, BOTH, torch.float32)
    cold = inputs._replace(temperatures=torch.zeros(BOTH["R"], dtype=torch.float64))
    assert torch.equal(sample(*cold), sample(inputs.logits, None, None, None, None))
    assert torch.equal(sample(*cold), inputs.logits.argmax(-1))


def test_whatever_the_number_is_the_token_is_one_that_stays(draw: Callable[..., Any]) -> None:
    """Also where rounding decides which of them: numbers right at the ends of their parts."""
    inputs: Any = draw(SPEC, BOTH, torch.float32)
    one: Any = Inputs(*(each[:1].expand(12, *each.shape[1:]) for each in inputs))
    one = one._replace(
        top_k=torch.full((12,), 7), top_p=torch.full((12,), 0.9, dtype=torch.float64)
    )
    weights = eager.scaled(*one[:4])[0].exp()
    sums = weights.cumsum(0)
    ends = (sums / sums[-1])[weights > 0][:-1]
    numbers = torch.cat([ends, ends - 1e-9, torch.tensor([0.0, 1 - 2.0**-53]).double()])[:12]
    rows = len(numbers)
    assert rows > 6
    trial: Any = Inputs(*(each[:rows].contiguous() for each in one))._replace(
        logits=one.logits[:rows], numbers=numbers
    )
    assert bool((weights[sample(*trial)] > 0).all())


def test_a_long_row_of_many_tiles(complaints: Callable[..., list[str]]) -> None:
    shape = {**BOTH, "R": 2, "V": 5003}
    inputs = make(shape, torch.float32, torch.Generator().manual_seed(5))
    call = partial(sample, config={"BLOCK_V": 1024, "DIGIT": 4})
    assert complaints(SPEC, inputs, call) == []


@pytest.mark.parametrize("digit", [1, 2])
def test_other_digits_find_the_same(
    digit: int, draw: Callable[..., Any], complaints: Callable[..., list[str]]
) -> None:
    inputs = Inputs(*(each[:2] for each in draw(SPEC, BOTH, torch.float32)))
    call = partial(sample, config={"BLOCK_V": 512, "DIGIT": digit})
    assert complaints(SPEC, inputs, call) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda i: {"logits": i.logits[0]}, r"logits must be \[R, V\]"),
        (lambda i: {"logits": i.logits[:, :0]}, "V of at least 1"),
        (lambda i: {"logits": i.logits.mT.contiguous().mT}, "stride 1 within rows"),
        (lambda i: {"numbers": None}, "given together or not at all"),
        (lambda i: {"numbers": i.numbers[:-1]}, r"must be \[R\]"),
        (lambda i: {"top_k": i.top_k.int()}, "top_k int64"),
        (lambda i: {"temperatures": i.temperatures.float()}, "must be float64"),
        (lambda i: {"top_p": i.top_p.repeat(2)[::2]}, "in one piece"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_with_their_shapes(
    change: Callable[[Inputs], dict[str, Any]], sentence: str, draw: Callable[..., Any]
) -> None:
    inputs: Any = draw(SPEC, BOTH, torch.float32)
    with pytest.raises(ValueError, match=sentence):
        sample(*inputs._replace(**change(inputs)))


def test_float64_is_refused(draw: Callable[..., Any]) -> None:
    with pytest.raises(UnfitError, match=r"no kernel for torch\.float64; known: float16"):
        sample(*draw(SPEC, BOTH, torch.float64))
