"""Decode attention over latents in PyTorch: the torch backend.

All heads see one key, so they are the rows of one head: a step of a batch is one attention over
what each sequence holds, read once. Drafts, and lengths that differ much, go sequence by sequence.
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from harness.kernels.decode_attention.eager import joined
from harness.kernels.decode_attention.grouping import apart
from harness.kernels.prefill_attention.eager import one_sequence, visible
from harness.kernels.prefill_attention.lengths import Lengths


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
    *,
    lengths: Lengths | None = None,
) -> Tensor:
    """Attend with few query rows a sequence; arguments as in the package's docstring.

    Args:
        lengths: rows and lengths where the host knows them. On a CPU they are read otherwise; on a
            GPU that would wait for it, so that one row each is padded to the table's capacity.

    Returns:
        [T, N, R] in the dtype of q.
    """
    on_cpu = q.device.type == "cpu"
    known = lengths
    if known is None and (on_cpu or cu_seqlens is not None):
        known = Lengths.read(cu_seqlens, lens)
    loose = known is not None and (known.max_rows > 1 or (on_cpu and apart(known)))
    if loose or mask is not None or causal_block > 1:
        known = known or Lengths.read(cu_seqlens, lens)
        return _one_by_one(q, latent, table, known, scale, rank, causal_block, mask)
    longest = table.shape[1] * latent.shape[2] if known is None else known.max_len
    if longest == 0:
        return q.new_zeros(*q.shape[:2], rank)
    held = joined(latent, table, 0, longest)  # [B, 1, S, E]
    seen = None
    if known is None or min(known.lens) < longest:
        seen = torch.arange(longest, device=q.device) < lens[:, None, None, None]
    out = scaled_dot_product_attention(
        q[:, None], held, held[..., :rank], attn_mask=seen, scale=scale
    )[:, 0]
    # A row with nothing to see is NaN after its softmax; the contract says zero.
    return out if seen is None else torch.where((lens > 0)[:, None, None], out, 0.0)


def _one_by_one(
    q: Tensor,
    latent: Tensor,
    table: Tensor,
    known: Lengths,
    scale: float,
    rank: int,
    causal_block: int,
    mask: Tensor | None,
) -> Tensor:
    """The same for rows that differ in what they see: a row's heads follow each other."""
    N, E = q.shape[1:]
    out = q.new_zeros(*q.shape[:2], rank)
    start = 0
    for b, (T, length) in enumerate(zip(known.rows, known.lens, strict=True)):
        rows = slice(start, start + T)
        start += T
        if not T or not length:
            continue
        held = one_sequence(latent, table[b], length, q.dtype)  # [1, S, E]
        own = None if mask is None else mask[rows, :T]
        _, last, seen = visible(length - T, T, length, causal_block, 0, own, None, q)
        if seen is True:
            seen = torch.ones(T, last, dtype=torch.bool, device=q.device).tril()
        bias = None if seen is False else seen.repeat_interleave(N, 0)  # [T * N, S]
        held = held[:, :last]
        mixed = scaled_dot_product_attention(
            q[rows].reshape(1, T * N, E), held, held[..., :rank], attn_mask=bias, scale=scale
        ).view(T, N, rank)
        if own is not None:
            # Only a mask can hide everything from a row, which is NaN then or what is left unsaid.
            assert isinstance(seen, Tensor)
            empty = (seen == -torch.inf).all(-1)
            mixed = torch.where(empty[:, None, None], 0.0, mixed)
        out[rows] = mixed
    return out
