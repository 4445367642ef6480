"""gather_blocks in PyTorch: the torch backend."""

from torch import Tensor


def gather_blocks(pool: Tensor, blocks: Tensor) -> Tensor:
    """[P, K, block, H] and [n] -> [K, n * block, H]."""
    return pool.index_select(0, blocks).transpose(0, 1).flatten(1, 2)
