"""SwiGLU's formula under `torch.compile` beside ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from harness.kernel import Peer, compiled
from harness.kernels.swiglu.inputs import Inputs


def make(inputs: Inputs) -> dict[str, Callable[[], Peer]]:
    """Every peer by name."""
    return {"compiled": partial(compiled, _formula, inputs)}


def _formula(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.float().chunk(2, dim=1)
    return (torch.nn.functional.silu(gate) * up).to(gate_up.dtype)
