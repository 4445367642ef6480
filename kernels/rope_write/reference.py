"""rope_write, plain: the definition, one head at a time. Never timed."""

import torch
from torch import Tensor


def rope_write(
    qkv: Tensor,
    cos: Tensor,
    sin: Tensor,
    k_pool: Tensor | None,
    v_pool: Tensor | None,
    pages: Tensor | None,
    offsets: Tensor | None,
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    """Arguments and result as in the package's docstring, but the pools given are left alone.

    A rotation of pairs (i, i + H/2) by angles whose cosine and sine are given, in the dtype of the
    table, then rounded to qkv's. Source: arXiv:2104.09864, equation 34, halves paired.
    """
    T, heads, H = qkv.shape
    half = H // 2
    K = 0 if k_pool is None else k_pool.shape[1]
    N = heads - 2 * K
    turned = torch.empty(T, N + K, H, dtype=qkv.dtype, device=qkv.device)
    c, s = cos[:, :half], sin[:, half:]  # [T, H / 2]
    for n in range(N + K):
        first, second = qkv[:, n, :half].to(cos.dtype), qkv[:, n, half:].to(cos.dtype)
        turned[:, n, :half] = (first * c - second * s).to(qkv.dtype)
        turned[:, n, half:] = (second * c + first * s).to(qkv.dtype)
    if k_pool is None or v_pool is None or pages is None or offsets is None:
        return turned
    keys, values = k_pool.clone(), v_pool.clone()
    for t in range(T):
        if pages[t] >= 0:
            keys[pages[t], :, offsets[t]] = turned[t, N:]
            values[pages[t], :, offsets[t]] = qkv[t, N + K :]
    return turned[:, :N], keys, values
