"""gather_blocks in Triton: pieces of memory copied to where they follow each other.

Moves 2 n K block H numbers. Source: arXiv:2309.06180, section 4.5.
"""

from collections.abc import Mapping

import torch
import triton
import triton.language as tl
from torch import Tensor

from harness.kernels.copy_blocks.kernel import DTYPES, default
from harness.kernels.gather_blocks import bucket
from harness.launch import require, target, tuned


@triton.jit(do_not_specialize=["n"])
def _gather_blocks(
    pool, blocks, out, pool_p, pool_k, n, PIECE: tl.constexpr, BLOCK_E: tl.constexpr
):
    """BLOCK_E numbers of one head of one block. Grid: (n, K, PIECE / BLOCK_E)."""
    i, k = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    e = tl.program_id(2) * BLOCK_E + tl.arange(0, BLOCK_E)
    mask = e < PIECE
    block = tl.load(blocks + i)
    piece = tl.load(pool + block * pool_p + k * pool_k + e, mask=mask)
    tl.store(out + (k * n + i) * PIECE + e, piece, mask=mask)


def gather_blocks(
    pool: Tensor, blocks: Tensor, *, config: Mapping[str, int] | None = None
) -> Tensor:
    """Launch the kernel; arguments and result as in the package's docstring.

    Raises:
        ValueError: tensors that do not fit together, with their shapes.
        UnfitError: a device or dtype that the kernel cannot run on.
    """
    require("gather_blocks", pool, DTYPES)
    if pool.dim() != 4 or not pool[:1, :1].is_contiguous() or blocks.dtype != torch.int64:
        raise ValueError(
            "gather_blocks: pool must be [P, K, block, H] with each head's block in one piece, and "
            f"blocks [n] int64; got pool {tuple(pool.shape)} strides {pool.stride()}, "
            f"blocks {tuple(blocks.shape)} {blocks.dtype}"
        )
    _, K, block, H = pool.shape
    n, piece = len(blocks), block * H
    if config is None:
        dtype = str(pool.dtype).removeprefix("torch.")
        row = bucket({"block": block, "H": H})
        device = target(pool.device)
        config = tuned("gather_blocks", device.arch, dtype, row) or default(
            pool.element_size(), device
        )
    out = torch.empty((K, n * block, H), dtype=pool.dtype, device=pool.device)
    if n and piece:
        with torch.cuda.device_of(pool):
            _gather_blocks[(n, K, triton.cdiv(piece, config["BLOCK_E"]))](
                pool, blocks, out, pool.stride(0), pool.stride(1), n, PIECE=piece, **config
            )
    return out
