"""rope_write in PyTorch: the torch backend.

The engine's torch path takes `rotate` alone and lets the cache write: a contiguous cache on a CPU
has quicker ways than an index a row.
"""

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
    """Arguments and result as in the package's docstring."""
    K = 0 if k_pool is None else k_pool.shape[1]
    N = qkv.shape[1] - 2 * K
    turned = rotate(qkv[:, : N + K], cos[:, None], sin[:, None])
    if k_pool is None or v_pool is None or pages is None or offsets is None:
        return turned
    keys, values = turned[:, N:], qkv[:, N + K :]
    # How many these are is asked of the device, which is why nothing of this can be captured.
    kept = pages >= 0
    pages, offsets, keys, values = pages[kept], offsets[kept], keys[kept], values[kept]
    k_pool.transpose(1, 2).index_put_((pages, offsets), keys)
    v_pool.transpose(1, 2).index_put_((pages, offsets), values)
    return turned[:, :N], k_pool, v_pool


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate x [T, heads, H] by cosines and signed sines [T or 1, 1, H]; in x's dtype."""
    turned = torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), sin)
    # The table is float32: without this the keys of a 16-bit model would not fit their cache.
    return turned.to(x.dtype)
