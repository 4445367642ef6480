"""The reference of a whole stack, composed: architecture's logits over the weights' matrices.

Independent of the engine: no cache, no batch, no kernels. The state dict is the one the engine was
built from, already in the timed dtype, so that rounding the weights is nobody's error.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness import stack as stacks
from harness.gates.tolerance import Errors, own_errors
from harness.plan import EnginePlan, Trait
from harness.suite.case import StackSpec
from harness.technique import Exactness, Slot, load

# Rows over which the reference's own error is taken, at least.
_ROWS = 64


@dataclass(frozen=True)
class Judged:
    """The reference's logits at the rows that decide emitted tokens, in both precisions."""

    exact: Tensor  # [n, V], float64
    trusted: Tensor  # [n, V], in the timed dtype
    own: Errors  # of trusted, over all rows of the run


class _Carried(dict[str, Tensor]):
    """Weights that come to a device when they are asked for, and leave no copy there."""

    def __init__(self, weights: dict[str, Tensor], device: torch.device) -> None:
        super().__init__(weights)
        self._device = device

    def __getitem__(self, name: str) -> Tensor:
        return super().__getitem__(name).to(self._device)


def logits(
    stack: StackSpec,
    plan: EnginePlan,
    weights: dict[str, Tensor],
    tokens: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """Logits [T, V] of tokens [T] by the stack's references, computed in `dtype`.

    Runs where `tokens` are. Matrices are brought there and to `dtype` one at a time, when they are
    used, so that a float64 copy of the model never exists.
    """
    carried = _Carried(weights, tokens.device)
    chain = stacks.techniques(stack)
    architecture = [t for t, _ in chain if t.slot is Slot.ARCHITECTURE][-1]
    technique, options = next((t, o) for t, o in chain if t.slot is Slot.WEIGHTS)
    dense: Callable[..., Tensor] = load(technique.reference)

    def linear(name: str, x: Tensor) -> Tensor:
        matrix = carried["embed" if name == "head" and plan.shape.tied else name]
        return x @ dense(name, matrix, options).to(dtype).T

    with torch.inference_mode(), torch.device(tokens.device):
        result: Tensor = load(architecture.reference)(carried, plan.shape, tokens, dtype, linear)
    return result


def judge(
    stack: StackSpec,
    plan: EnginePlan,
    weights: dict[str, Tensor],
    prompt: Sequence[int],
    emitted: Sequence[int],
    device: str = "cpu",
) -> Judged:
    """One teacher-forced run in each precision over a prompt and the tokens emitted after it.

    Row r decides `emitted[r]`. Tokens outside the vocabulary stand as token 0 here, so that the
    gates can say what is wrong with them.
    """
    V, n = plan.shape.vocab, len(emitted)
    # The last token emitted decides nothing any more.
    fed = [*prompt, *(t if 0 <= t < V else 0 for t in emitted[:-1])]
    rows = slice(len(prompt) - 1, len(fed))
    if plan.traits.isdisjoint({Trait.BIDIRECTIONAL, Trait.BLOCKWISE}):
        # What comes later changes no row before it, and gives more of the reference's own errors.
        # Other tokens, since the same ones again are hardly more draws: with those, 1 of 24 right
        # engines of state spaces had more than twice the reference's largest error.
        fed += random.Random(0).choices(range(V), k=max(0, _ROWS - len(fed)))
    tokens = torch.tensor(fed, device=device)
    exact = logits(stack, plan, weights, tokens, torch.float64)
    trusted = logits(stack, plan, weights, tokens, getattr(torch, plan.dtype))
    return Judged(exact[rows], trusted[rows], own_errors(trusted, exact, n))


def promised(stack: StackSpec, slots: Collection[Slot]) -> Exactness:
    """The weakest promise among the techniques in these slots.

    The composed reference already has the architecture's and the weights' numbers in it, so only
    cache, decoding and scheduling can make an engine's outputs differ from it.
    """
    found = {t.exactness(o) for t, o in stacks.techniques(stack) if t.slot in slots}
    for worst in (Exactness.LOSSY, Exactness.DISTRIBUTION):
        if worst in found:
            return worst
    return Exactness.IDENTICAL
