"""RMSNorm, plain: the definition, one row at a time. Never timed."""

import torch
from torch import Tensor


def rms_norm(
    x: Tensor, residual: Tensor | None, weight: Tensor, eps: float
) -> Tensor | tuple[Tensor, Tensor]:
    """[T, D] -> [T, D], and the sum with the residual where there is one, in the inputs' dtype.

    Give float64 for the exact answer. Source: arXiv:1910.07467, equation 4, with `eps` under the
    root as in every released model.
    """
    total = x if residual is None else x + residual
    out = torch.empty_like(total)
    for t in range(total.shape[0]):
        out[t] = total[t] / torch.sqrt((total[t] * total[t]).mean() + eps) * weight
    return out if residual is None else (out, total)
