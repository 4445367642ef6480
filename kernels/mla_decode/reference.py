"""Decode attention over latents, plain: the definition, one head of a sequence at a time.

Never timed.
"""

import torch
from torch import Tensor


def mla_decode(
    q: Tensor,
    latent: Tensor,
    table: Tensor,
    lens: Tensor,
    scale: float,
    rank: int,
    cu_seqlens: Tensor | None = None,
    causal_block: int = 1,
    mask: Tensor | None = None,
) -> Tensor:
    """Softmax attention of each sequence's rows, in the dtype of q; arguments as in the package.

    Returns:
        [T, N, R]. Give float64 for the exact answer; a row that sees nothing is zeros. Source:
        arXiv:2405.04434, equations 16 to 19, with W_UK and W_UV absorbed (2.1.2).
    """
    T, N, _ = q.shape
    block = latent.shape[2]
    out = q.new_zeros(T, N, rank)
    first = 0
    for b, length in enumerate(lens.tolist()):
        rows = 1 if cu_seqlens is None else int(cu_seqlens[b + 1] - cu_seqlens[b])
        places = torch.arange(length, device=q.device)
        entries = latent[table[b, places // block].long(), 0, places % block].to(q.dtype)  # [S, E]
        for r in range(rows):
            place = length - rows + r
            # Everything up to the end of the row's block; of the sequence's own rows, what the
            # mask says.
            end = min(length, (place // causal_block + 1) * causal_block)
            if mask is not None:
                end = length
            if end <= 0:
                continue
            for n in range(N):
                scores = entries[:end] @ q[first + r, n] * scale
                if mask is not None:
                    scores[length - rows :] += mask[first + r, :rows].to(q.dtype)
                if (scores > -torch.inf).any():
                    out[first + r, n] = torch.softmax(scores, 0) @ entries[:end, :rank]
        first += rows
    return out
