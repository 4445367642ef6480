"""Attention of a ragged batch over pages, plain: the definition, one head of a sequence at a time.

Never timed.
"""

import torch
from torch import Tensor

# Scores that exist at once: of long prompts only so many rows. 512 MiB in float64.
SCORES = 2**26


def prefill_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: Tensor,
    lens: Tensor,
    scale: float,
    cu_seqlens: Tensor,
    causal_block: int = 1,
    window: int = 0,
    softcap: float = 0.0,
    mask: Tensor | None = None,
    positions: Tensor | None = None,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
) -> Tensor:
    """Softmax attention of each sequence's rows, in the dtype of q; arguments as in the package.

    Returns:
        [T, N, H]. Give float64 for the exact answer; a row that sees nothing is zeros. Source:
        arXiv:1706.03762, equation 1; heads n of a group read key/value head n // (N/K),
        arXiv:2305.13245, section 2.2; the soft cap is arXiv:2408.00118, section 2.
    """
    _, N, _ = q.shape
    K, block = k.shape[1], k.shape[2]
    out = torch.zeros_like(q)
    bounds = cu_seqlens.tolist()
    for b, length in enumerate(lens.tolist()):
        T = bounds[b + 1] - bounds[b]
        if T == 0 or length == 0:
            continue
        keys_at = torch.arange(length, device=q.device)  # [S]
        page, within = table[b, keys_at // block].long(), keys_at % block
        held, step = length - T, max(1, SCORES // length)
        for first in range(0, T, step):
            last = min(T, first + step)
            rows = slice(bounds[b] + first, bounds[b] + last)
            places = torch.arange(held + first, held + last, device=q.device)  # [T]
            at = places if positions is None else positions[rows].long()
            seen = keys_at[None] // causal_block <= places[:, None] // causal_block  # [T, S]
            if window:
                seen &= at[:, None] - keys_at[None] < window
            bias = torch.zeros(last - first, length, dtype=q.dtype, device=q.device)
            if mask is not None:
                # Among this call's own tokens the mask alone decides.
                seen[:, held:] = True
                bias[:, held:] = mask[rows, :T].to(q.dtype)
            for n in range(N):
                head = n // (N // K)
                keys, values = (pool[page, head, within].to(q.dtype) for pool in (k, v))  # [S, H]
                if k_scale is not None and v_scale is not None:
                    keys = keys * k_scale[page, head, within, None].to(q.dtype)
                    values = values * v_scale[page, head, within, None].to(q.dtype)
                scores = q[rows, n] @ keys.T * scale  # [T, S]
                if softcap:
                    scores = softcap * torch.tanh(scores / softcap)
                scores = torch.where(seen, scores + bias, -torch.inf)
                weights = torch.softmax(scores, dim=-1)
                # Of a row that sees nothing, all scores are minus infinity and all weights NaN.
                weights = torch.where((scores > -torch.inf).any(-1, keepdim=True), weights, 0.0)
                out[rows, n] = weights @ values
    return out
