"""Every dtype within the bound that its own rounding sets, in prefill, pieces and decode."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor

from harness import stack as stacks
from harness.engine.build import assemble
from harness.engine.request import Request
from harness.gates import reference
from harness.gates.regret import check_regret
from harness.gates.tolerance import check_numeric
from harness.shape import DTypeName

if TYPE_CHECKING:
    from tests.engine.conftest import Bench

PROMPTS = [(7, 11, 2, 40, 5, 19, 33), (3,), tuple(range(20))]
NEW = 10


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("stack", ["gqa", "gqa+recompute", "gqa+toy_pieces(piece=3)"])
def test_logits_and_tokens_of_every_dtype(bench: Bench, stack: str, dtype: DTypeName) -> None:
    """Keys that stayed in the rope table's float32 once did not fit a 16-bit cache."""
    timed: torch.dtype = getattr(torch, dtype)
    spec = stacks.parse(stack)
    plan = replace(bench.plan(stack), dtype=dtype)
    loaded = {name: tensor.to(timed) for name, tensor in bench.weights(plan).items()}
    engine = assemble(plan, loaded)
    seen: dict[int, list[Tensor]] = {i: [] for i in range(len(PROMPTS))}
    engine.observer = lambda request, place, logits: seen[request].append(logits.clone())
    tokens = bench.tokens(engine, [Request(i, p, NEW) for i, p in enumerate(PROMPTS)])
    judged = [
        reference.judge(spec, plan, loaded, prompt, tokens[i]) for i, prompt in enumerate(PROMPTS)
    ]
    exact = torch.cat([part.exact for part in judged])
    trusted = torch.cat([part.trusted for part in judged])
    output = torch.cat([row for i in range(len(PROMPTS)) for row in seen[i]])
    emitted = [token for i in range(len(PROMPTS)) for token in tokens[i]]
    assert output.dtype == timed
    results = check_numeric(output, trusted, exact, timed)
    results += check_regret(exact, trusted, emitted, timed)
    assert [result for result in results if not result.passed] == []


def test_float64_is_exact(bench: Bench) -> None:
    """No gate's rule fits here, where the reference in the timed dtype is the exact one."""
    plan = replace(bench.plan("gqa"), dtype="float64")
    engine = assemble(plan, {n: t.double() for n, t in bench.weights(plan).items()})
    seen: list[Tensor] = []
    engine.observer = lambda request, place, logits: seen.append(logits.clone())
    tokens = bench.tokens(engine, [Request(0, PROMPTS[0], NEW)])[0]
    exact = bench.logits("gqa", [*PROMPTS[0], *tokens[:-1]])[len(PROMPTS[0]) - 1 :]
    assert (torch.cat(seen) - exact).abs().max() < 1e-13


def test_state_takes_the_dtype_of_the_case(bench: Bench) -> None:
    held = {}
    for dtype in ("float32", "bfloat16"):
        plan = replace(bench.plan("mha"), dtype=dtype)
        engine = assemble(plan, {n: t.to(getattr(torch, dtype)) for n, t in
                                 bench.weights(plan).items()})  # fmt: skip
        engine.observer = lambda request, place, logits: None
        bench.run(engine, [Request(0, PROMPTS[0], NEW)])
        held[dtype] = engine.memory()
    assert held["float32"].state_bytes == 2 * held["bfloat16"].state_bytes
    assert held["float32"].weights_bytes == 2 * held["bfloat16"].weights_bytes
