"""Decode attention, plain: the definition, one head of one sequence at a time. Never timed."""

import torch
from torch import Tensor


def decode_attention(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor, lens: Tensor, scale: float
) -> Tensor:
    """Softmax attention of one query token a sequence, in the dtype of the inputs.

    Args:
        q: [B, N, H].
        k: keys in pages, [P, K, block, H]; v likewise.
        table: pages of each sequence in order, [B, pages] int32.
        lens: tokens visible to each query, [B] int32; a sequence of none gives zeros.
        scale: of the scores.

    Returns:
        [B, N, H]. Give float64 for the exact answer. Source: arXiv:1706.03762, equation 1;
        heads n of a group read key/value head n // (N/K), arXiv:2305.13245, section 2.2.
    """
    B, N, _ = q.shape
    K, block = k.shape[1], k.shape[2]
    out = torch.zeros_like(q)
    for b in range(B):
        if lens[b] == 0:
            continue
        places = torch.arange(int(lens[b]), device=q.device)  # [S]
        page, within = table[b, places // block].long(), places % block
        for n in range(N):
            keys = k[page, n // (N // K), within]  # [S, H]
            values = v[page, n // (N // K), within]  # [S, H]
            scores = keys @ q[b, n] * scale  # [S]
            out[b, n] = torch.softmax(scores, dim=0) @ values
    return out
