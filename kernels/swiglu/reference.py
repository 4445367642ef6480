"""SwiGLU, plain: the definition, one row at a time. Never timed."""

import torch
from torch import Tensor


def swiglu(gate_up: Tensor) -> Tensor:
    """[T, 2F] -> [T, F] in the dtype of the input; give float64 for the exact answer.

    Source: arXiv:2002.05202, equation 6, with swish(z) = z * sigmoid(z).
    """
    width = gate_up.shape[1] // 2
    out = torch.empty(gate_up.shape[0], width, dtype=gate_up.dtype, device=gate_up.device)
    for t in range(gate_up.shape[0]):
        gate, up = gate_up[t, :width], gate_up[t, width:]
        out[t] = gate / (1 + torch.exp(-gate)) * up
    return out
