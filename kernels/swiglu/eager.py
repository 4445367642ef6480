"""SwiGLU in PyTorch: the torch backend."""

import torch.nn.functional as F  # noqa: N812 - torch's own abbreviation
from torch import Tensor


def swiglu(gate_up: Tensor) -> Tensor:
    """[T, 2F] -> [T, F]."""
    width = gate_up.shape[1] // 2
    return F.silu(gate_up[:, :width]).mul_(gate_up[:, width:])
