"""Decode attention in PyTorch: the torch backend.

What was measured on a CPU decides its form: the query heads of one key/value head become the rows
of one attention (no copy of K and V for grouped queries), pools are head-major, equal lengths need
no mask, and sequences whose lengths differ much are cheaper one by one than padded.
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

# Below this many tokens padding beats a loop over sequences, whatever the lengths; above it, where
# the padded work exceeds the needed one by this factor, the loop wins (measured at 1.0 and 1.8).
SHORT = 256
PADDING_FACTOR = 1.3


def decode_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: Tensor,
    lens: Tensor,
    scale: float,
    *,
    max_len: int | None = None,
) -> Tensor:
    """Attend with one query token a sequence; arguments as in the package's docstring.

    Args:
        max_len: the largest of `lens` where the host knows it; else it is asked of the device.

    Returns:
        [B, N, H] in the dtype of q.
    """
    B, N, H = q.shape
    K = k.shape[1]
    longest = int(lens.max()) if max_len is None else max_len
    if longest == 0:
        return torch.zeros_like(q)
    rows = q.view(B, K, N // K, H) if q.is_contiguous() else q.reshape(B, K, N // K, H)
    # On a GPU reading lengths back would wait for the device, so there everything is padded.
    held: list[int] | None = lens.tolist() if q.device.type == "cpu" else None
    if held is not None and (
        min(held) == 0 or (longest >= SHORT and B * longest > PADDING_FACTOR * sum(held))
    ):
        return _one_by_one(rows, k, v, table, held, scale).view(B, N, H)
    keys, values = _gather(k, table, longest), _gather(v, table, longest)  # [B, K, S, H]
    mask = None
    if held is None or min(held) < longest:
        places = torch.arange(longest, device=q.device)
        mask = (places < lens[:, None])[:, None, None]  # [B, 1, 1, S]
    out = scaled_dot_product_attention(rows, keys, values, attn_mask=mask, scale=scale)
    if held is None:
        # A row with nothing to see is NaN after its softmax; the contract says zero.
        out = torch.where((lens > 0)[:, None, None, None], out, 0.0)
    return out.reshape(B, N, H)


def _gather(pool: Tensor, table: Tensor, longest: int) -> Tensor:
    """[B, K, longest, H] of a pool [P, K, block, H]; a view where one page holds a sequence and
    the pages follow each other."""
    _, K, block, H = pool.shape
    B, pages = table.shape
    if pages == 1 and pool.device.type == "cpu":
        slots = table[:, 0].tolist()
        first = slots[0]
        if slots == list(range(first, first + B)):
            return pool[first : first + B, :, :longest]
        return pool.index_select(0, table[:, 0])[:, :, :longest]
    needed = -(-longest // block)
    picked = pool.index_select(0, table[:, :needed].reshape(-1))  # [B * needed, K, block, H]
    joined = picked.view(B, needed, K, block, H).transpose(1, 2)
    return joined.reshape(B, K, needed * block, H)[:, :, :longest]


def _one_by_one(
    rows: Tensor, k: Tensor, v: Tensor, table: Tensor, held: list[int], scale: float
) -> Tensor:
    """The same [B, K, N/K, H] by a loop over sequences."""
    out = torch.zeros_like(rows)
    for b, length in enumerate(held):
        if length:
            keys = _gather(k, table[b : b + 1], length)
            values = _gather(v, table[b : b + 1], length)
            out[b] = scaled_dot_product_attention(rows[b : b + 1], keys, values, scale=scale)[0]
    return out
