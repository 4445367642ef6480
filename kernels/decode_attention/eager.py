"""Decode attention in PyTorch: the torch backend.

What was measured on a CPU decides its form: the query heads of one key/value head, and the rows of
a draft, become the rows of one attention (no copy of K and V for grouped queries), pools are
head-major, equal lengths need no mask, and of sequences whose lengths differ much the short are
padded and the long taken one by one. Slots of a contiguous cache are read where they lie.
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from harness.kernels.decode_attention.grouping import SHORT, apart, near
from harness.kernels.prefill_attention.eager import prefill_attention
from harness.kernels.prefill_attention.lengths import Lengths


def decode_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: Tensor,
    lens: Tensor,
    scale: float,
    cu_seqlens: Tensor | None = None,
    causal_block: int = 1,
    window: int = 0,
    softcap: float = 0.0,
    mask: Tensor | None = None,
    positions: Tensor | None = None,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    *,
    lengths: Lengths | None = None,
) -> Tensor:
    """Attend with few query rows a sequence; arguments as in the package's docstring.

    Args:
        lengths: rows and lengths where the host knows them. On a CPU they are read otherwise; on a
            GPU that would wait for it, so that one row each is padded to the table's capacity.

    Returns:
        [T, N, H] in the dtype of q.
    """
    on_cpu = q.device.type == "cpu"
    known = lengths
    if known is None and (on_cpu or cu_seqlens is not None):
        known = Lengths.read(cu_seqlens, lens)
    longest = table.shape[1] * k.shape[2] if known is None else known.max_len
    if longest == 0:
        return torch.zeros_like(q)
    plain = causal_block == 1 and not softcap and mask is None and positions is None
    loop = not plain
    if plain and on_cpu and known is not None:
        one_each = known.max_rows == 1 and len(q) == len(lens)
        if one_each and table.shape[1] == 1:
            slots: list[int] = table[:, 0].tolist()
            if near(slots, known):
                return _in_place(q, k, v, slots, known, scale, window, k_scale, v_scale)
            loop = True
        elif one_each and apart(known):
            return _by_length(q, k, v, table, lens, known, scale, window, k_scale, v_scale)
        else:
            # On a GPU padding is cheaper than a launch a sequence.
            loop = apart(known)
    if loop:
        if cu_seqlens is None:
            cu_seqlens = torch.arange(len(lens) + 1, dtype=torch.int32, device=q.device)
        return prefill_attention(
            q, k, v, table, lens, scale, cu_seqlens, causal_block, window, softcap, mask,
            positions, k_scale, v_scale, lengths=known,
        )  # fmt: skip
    return _together(q, k, v, table, lens, scale, cu_seqlens, window, k_scale, v_scale, known)


def _together(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: Tensor,
    lens: Tensor,
    scale: float,
    cu_seqlens: Tensor | None,
    window: int,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
    known: Lengths | None,
) -> Tensor:
    """All sequences in one call, padded to the longest."""
    longest = table.shape[1] * k.shape[2] if known is None else known.max_len
    B, (T, N, H), K = len(lens), q.shape, k.shape[1]
    G, R = N // K, 1 if known is None else known.max_rows
    rows, at = q, None
    if B * R != T:
        rows, at = _padded(q, known, R)
    if R > 1:
        rows = rows.view(B, R, K, G, H).transpose(1, 2)
    rows = rows.reshape(B, K, R * G, H)
    first = 0
    if window and known is not None:
        first = max(0, min(known.lens) - (R - 1) - window)
    keys = _gather(k, table, first, longest, q.dtype, k_scale)  # [B, K, S, H]
    values = _gather(v, table, first, longest, q.dtype, v_scale)
    seen = None
    if R > 1 or known is None or (window and first < longest - window) or min(known.lens) < longest:
        places = torch.arange(first, longest, device=q.device)
        limits = lens[:, None]  # [B, R]: a row sees the keys before
        if R > 1 or at is not None:
            assert cu_seqlens is not None
            # Padding rows see what the last one sees.
            behind = (cu_seqlens.diff()[:, None] - 1) - torch.arange(R, device=q.device)
            limits = (limits - behind.clamp(min=0)).repeat_interleave(G, 1)  # [B, R * G]
        seen = places < limits[..., None]  # [B, R * G or 1, S]
        if window:
            seen &= places >= limits[..., None] - window
        seen = seen[:, None]
    out = scaled_dot_product_attention(rows, keys, values, attn_mask=seen, scale=scale)
    if known is None or min(known.lens) == 0:
        # A row with nothing to see is NaN after its softmax; the contract says zero.
        out = torch.where((lens > 0)[:, None, None, None], out, 0.0)
    if R > 1:
        out = out.view(B, K, R, G, H).transpose(1, 2)
    out = out.reshape(B * R, N, H)
    return out if at is None else out.index_select(0, at)


def _in_place(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    slots: list[int],
    known: Lengths,
    scale: float,
    window: int,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
) -> Tensor:
    """One row a slot, all slots from the first to the last in their order: nothing is copied."""
    first, end = min(slots), max(slots) + 1
    table = torch.arange(first, end, dtype=torch.int32)[:, None]
    # Whoever lies between looks at as much as the longest, and nobody looks at what it finds.
    held = [known.max_len] * (end - first)
    for slot, length in zip(slots, known.lens, strict=True):
        held[slot - first] = length
    lens, own = torch.tensor(held, dtype=torch.int32), Lengths([1] * len(held), held)
    if slots == list(range(first, end)):
        return _together(q, k, v, table, lens, scale, None, window, k_scale, v_scale, own)
    at = torch.tensor(slots) - first
    rows = q.new_zeros(end - first, *q.shape[1:]).index_copy_(0, at, q)
    out = _together(rows, k, v, table, lens, scale, None, window, k_scale, v_scale, own)
    return out.index_select(0, at)


def _by_length(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: Tensor,
    lens: Tensor,
    known: Lengths,
    scale: float,
    window: int,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
) -> Tensor:
    """One row a sequence: short ones padded to one length, each of the others by itself."""
    out = torch.zeros_like(q)
    short = [b for b, length in enumerate(known.lens) if length < SHORT]
    long = [b for b, length in enumerate(known.lens) if length >= SHORT]
    for chosen in (short, long):
        if not chosen:
            continue
        at = torch.tensor(chosen)
        own = Lengths([1] * len(chosen), [known.lens[b] for b in chosen])
        rows, pages, held = (each.index_select(0, at) for each in (q, table, lens))
        if chosen is long:
            bounds = torch.arange(len(chosen) + 1, dtype=torch.int32)
            found = prefill_attention(
                rows, k, v, pages, held, scale, bounds, 1, window, k_scale=k_scale,
                v_scale=v_scale, lengths=own,
            )  # fmt: skip
        elif own.max_len:
            found = _together(rows, k, v, pages, held, scale, None, window, k_scale, v_scale, own)
        else:
            continue
        out.index_copy_(0, at, found)
    return out


def _padded(q: Tensor, known: Lengths | None, R: int) -> tuple[Tensor, Tensor]:
    """q as [B * R, N, H], shorter drafts padded with zeros, and where its rows went, [T]."""
    assert known is not None
    places = [b * R + r for b, count in enumerate(known.rows) for r in range(count)]
    at = torch.tensor(places, device=q.device)
    return q.new_zeros(len(known.rows) * R, *q.shape[1:]).index_copy_(0, at, q), at


def _gather(
    pool: Tensor, table: Tensor, first: int, last: int, dtype: torch.dtype, scales: Tensor | None
) -> Tensor:
    """The keys from `first` to `last` of every sequence, [B, K, last - first, H], from a pool."""
    found = joined(pool, table, first, last)
    if scales is None:
        return found
    return found.to(dtype) * joined(scales[..., None], table, first, last).to(dtype)


def joined(pool: Tensor, table: Tensor, first: int, last: int) -> Tensor:
    """The same of a pool [P, K, block, H] as it is; a view where one page holds a sequence and
    the pages follow each other."""
    _, K, block, H = pool.shape
    B, pages = table.shape
    if pages == 1 and pool.device.type == "cpu":
        slots = table[:, 0].tolist()
        if slots == list(range(slots[0], slots[0] + B)):
            return pool[slots[0] : slots[0] + B, :, first:last]
        return pool[:, :, first:last].index_select(0, table[:, 0])
    skipped, end = first // block, -(-last // block)
    picked = pool.index_select(0, table[:, skipped:end].reshape(-1))  # [B * pages, K, block, H]
    flat = picked.view(B, end - skipped, K, block, H).transpose(1, 2)
    first, last = first - skipped * block, last - skipped * block
    return flat.reshape(B, K, (end - skipped) * block, H)[:, :, first:last]
