"""gather_blocks, plain: the definition, one block at a time. Never timed."""

import torch
from torch import Tensor


def gather_blocks(pool: Tensor, blocks: Tensor) -> Tensor:
    """[P, K, block, H] and [n] -> [K, n * block, H]: blocks side by side, in the order given."""
    return torch.cat([pool[int(block)] for block in blocks], dim=1)
