"""Attention of a ragged batch over pages in PyTorch: the torch backend.

What was measured on a CPU decides its form: a loop over sequences beat or tied padding and one
block-diagonal mask, and long prompts are cut into chunks of rows, each over the keys that it sees.
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from harness.kernels.prefill_attention.lengths import Lengths

# Rows at once. At 256 rows and more, chunks of 128 took 6 to 20 % less time than one causal call
# (64: 2 to 17 % less, 32 and 256: less gain or a loss), and their masks stay small.
CHUNK = 128


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
    *,
    lengths: Lengths | None = None,
) -> Tensor:
    """Attend with the rows of every sequence; arguments as in the package's docstring.

    Args:
        lengths: `cu_seqlens` and `lens` where the host knows them; else they are asked of the
            device.

    Returns:
        [T, N, H] in the dtype of q.
    """
    known = lengths or Lengths.read(cu_seqlens, lens)
    out = torch.zeros_like(q)
    start = 0
    for b, (T, length) in enumerate(zip(known.rows, known.lens, strict=True)):
        end = start + T
        if T and length:
            keys = one_sequence(k, table[b], length, q.dtype, k_scale)
            values = one_sequence(v, table[b], length, q.dtype, v_scale)
            for a in range(start, end, CHUNK):
                chunk = slice(a, min(end, a + CHUNK))
                place = length - end + a
                first, last, seen = visible(
                    place, chunk.stop - a, length, causal_block, window,
                    None if mask is None else mask[chunk, :T],
                    None if positions is None else positions[chunk], q,
                )  # fmt: skip
                out[chunk] = attend(
                    q[chunk], keys[:, first:last], values[:, first:last], seen, scale, softcap
                )
        start = end
    return out


def one_sequence(
    pool: Tensor, pages: Tensor, length: int, dtype: torch.dtype, scales: Tensor | None = None
) -> Tensor:
    """[K, length, H] of a pool [P, K, block, H]: a view where one page holds all of it."""
    block = pool.shape[2]
    if len(pages) == 1:
        found = pool[int(pages), :, :length]
        return found if scales is None else _scaled(found, scales[int(pages), :, :length], dtype)
    held = pages[: -(-length // block)]
    if block == 1 and held.device.type == "cpu":
        # Loose entries lie side by side: a view again, where copying would be half the work.
        first = int(held[0])
        if torch.equal(held, torch.arange(first, first + length, dtype=held.dtype)):
            found = pool[first : first + length, :, 0].transpose(0, 1)
            if scales is None:
                return found
            return _scaled(found, scales[first : first + length, :, 0].transpose(0, 1), dtype)
    found = pool.index_select(0, held).transpose(0, 1).flatten(1, 2)[:, :length]
    if scales is None:
        return found
    return _scaled(
        found, scales.index_select(0, held).transpose(0, 1).flatten(1, 2)[:, :length], dtype
    )


def _scaled(numbers: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    return numbers.to(dtype) * scales[..., None].to(dtype)


def visible(
    place: int,
    T: int,
    length: int,
    causal_block: int,
    window: int,
    mask: Tensor | None,
    positions: Tensor | None,
    q: Tensor,
) -> tuple[int, int, Tensor | bool]:
    """What the rows at `place` and after see of `length` keys: first and last key, and which.

    Returns:
        first, last: no row sees a key before or from there on.
        seen: [T, last - first], bool or, with a mask, to be added; True: causal; False: all.
    """
    own = length - (0 if mask is None else mask.shape[1])
    end = place + T
    # The last place that a row sees; with a mask, every one of the sequence's own rows may.
    last = length if mask is not None else min(length, -(-end // causal_block) * causal_block)
    first = 0
    if window and positions is None:
        first = max(0, place - window + 1)
    if mask is None and positions is None:
        unlimited = not window or end - first <= window
        if unlimited and min(length, (place // causal_block + 1) * causal_block) == last:
            return first, last, False
        if causal_block == 1:
            if first == place and unlimited:
                return first, last, True
            seen = torch.ones(T, last - first, dtype=torch.bool, device=q.device)
            seen = seen.tril(place - first)
            return first, last, seen if unlimited else seen.triu(place - first - window + 1)
    rows = torch.arange(place, end, device=q.device)[:, None]
    keys = torch.arange(first, last, device=q.device)[None]
    seen = keys // causal_block <= rows // causal_block
    if window:
        at = rows if positions is None else positions[:, None]
        seen &= at - keys < window
    if mask is None:
        return first, last, seen
    bias = torch.zeros_like(seen, dtype=q.dtype).masked_fill_(~seen, -torch.inf)
    bias[:, own - first :] = mask
    return first, last, bias


def attend(
    rows: Tensor, keys: Tensor, values: Tensor, seen: Tensor | bool, scale: float, softcap: float
) -> Tensor:
    """[T, N, H] of rows [T, N, H] over keys and values [K, S, H]; `seen` as `visible` gives it."""
    T, N, H = rows.shape
    K = keys.shape[0]
    if not softcap:
        out = scaled_dot_product_attention(
            rows.transpose(0, 1)[None],
            keys[None],
            values[None],
            attn_mask=None if isinstance(seen, bool) else seen,
            is_causal=seen is True,
            scale=scale,
            enable_gqa=N != K,
        )[0].transpose(0, 1)
    else:
        grouped = (
            rows.view(T, K, N // K, H).permute(1, 2, 0, 3)
            if rows.is_contiguous()
            else (rows.reshape(T, K, N // K, H).permute(1, 2, 0, 3))
        )
        scores = softcap * torch.tanh(grouped @ keys[:, None].mT * (scale / softcap))
        if seen is True:
            seen = torch.ones(T, keys.shape[1], dtype=torch.bool, device=rows.device).tril()
        if isinstance(seen, Tensor):
            scores = (
                scores.masked_fill(~seen, -torch.inf) if seen.dtype == torch.bool else scores + seen
            )
        out = torch.softmax(scores, -1) @ values[:, None]  # [K, N/K, T, H]
        out = out.permute(2, 0, 1, 3).reshape(T, N, H)
    if isinstance(seen, Tensor) and seen.dtype != torch.bool:
        # Only a mask can hide everything from a row, which is NaN then or what is left unsaid.
        empty = (seen == -torch.inf).all(-1)
        out = torch.where(empty[:, None, None], 0.0, out)
    return out
