"""A linear layer, plain: the definition, one row at a time. Never timed."""

import torch
from torch import Tensor


def linear(x: Tensor, w: Tensor) -> Tensor:
    """x [B, D] @ w [D, F] -> [B, F], in the dtype of the inputs; give float64 for the exact answer.

    One row at a time, a dot product an output: out[b, f] = sum over d of x[b, d] w[d, f].
    """
    out = torch.empty(x.shape[0], w.shape[1], dtype=x.dtype, device=x.device)
    for b in range(x.shape[0]):
        out[b] = torch.mv(w.t(), x[b])
    return out
