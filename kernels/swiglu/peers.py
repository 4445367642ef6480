"""SwiGLU's formula under `torch.compile` beside ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from harness.kernel import Peer
from harness.kernels.swiglu.inputs import Inputs


def make(inputs: Inputs) -> dict[str, Callable[[], Peer]]:
    """Every peer by name."""
    return {"compiled": partial(_compiled, inputs)}


def _compiled(inputs: Inputs) -> Peer:
    return Peer(partial(_function(), *inputs), lambda returned: returned)


@cache
def _function() -> Callable[..., Any]:
    return torch.compile(_formula, dynamic=False)


def _formula(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.float().chunk(2, dim=1)
    return (torch.nn.functional.silu(gate) * up).to(gate_up.dtype)
