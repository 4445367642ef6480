"""Decode attention in Triton: split over the cached tokens, grouped queries in one matrix product.

    out[b, n] = softmax(scale * q[b, n] . k[b, :, n // (N/K)]) @ v[b, :, n // (N/K)]

The query heads that share a key/value head are the rows of one `tl.dot`, so K and V are read once
a group: 2BSKH numbers in, BNH out. A batch too small to fill the device is split along the cached
tokens; each part leaves its normalised output and the logarithm of its sum, and a second kernel
merges them. Sources: Flash-Decoding (Dao et al. 2023); arXiv:2309.06180 for pages.
"""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from harness.launch import require, target

# Rows a matrix product has at least; a group of query heads is padded to it.
MIN_ROWS = 16
# More heads a group than this take several programs, which read K and V again each.
MAX_ROWS = 64
MAX_HEAD_DIM = 256
# A part of a sequence is worth a program of its own from about here: below, writing and merging
# its output costs more than a few percent of reading its keys and values.
MIN_SPLIT_TOKENS = 256
MAX_SPLITS = 64
# Programs of four warps that a multiprocessor keeps in flight; latency of memory hides behind them.
RESIDENT = 2
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


# Arguments that vary while an engine runs are not specialised on, or each would recompile.
@triton.jit(do_not_specialize=["table_b", "block", "splits"])
def _attend(
    q, k, v, table, lens, out, partial, logsum,
    scale, q_b, q_n, k_p, k_k, k_s, v_p, v_k, v_s, table_b, out_b, out_n, block, splits,
    K: tl.constexpr, GROUP: tl.constexpr, H: tl.constexpr, PAGE: tl.constexpr,
    DIRECT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """One part of one sequence for up to BLOCK_M query heads of one key/value head.

    Grid: (B * K * tiles of a group, splits). PAGE is the page size where it is below BLOCK_S, so
    that the division is by a constant; 0 where pages are larger (`block` tokens), when a tile
    meets two of them at most. DIRECT: there is one split, so `out` is written at once.
    """
    TILES: tl.constexpr = (GROUP + BLOCK_M - 1) // BLOCK_M
    program = tl.program_id(0)
    split = tl.program_id(1)
    b = (program // (K * TILES)).to(tl.int64)
    head = (program // TILES) % K
    row = (program % TILES) * BLOCK_M + tl.arange(0, BLOCK_M)  # head within the group
    n = head * GROUP + row
    h = tl.arange(0, BLOCK_H)
    q_mask = (row < GROUP)[:, None] & (h < H)[None, :]
    b_q = tl.load(q + b * q_b + n[:, None] * q_n + h[None, :], mask=q_mask, other=0.0)

    # The tiles of this sequence, shared out evenly; a part past its end is empty.
    length = tl.load(lens + b)
    per_split = tl.cdiv(tl.cdiv(length, BLOCK_S), splits) * BLOCK_S
    first = split * per_split
    last = tl.minimum(first + per_split, length)

    # Exponentials are to base 2, which the hardware has.
    log2_scale = scale * 1.4426950408889634
    high = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_H], tl.float32)
    for start in tl.range(first, last, BLOCK_S):
        s = tl.arange(0, BLOCK_S)
        s_mask = start + s < last
        if PAGE > 0:
            index = (start + s) // PAGE
            within = (start + s) % PAGE
        else:
            within = start % block + s
            crossed = within >= block
            index = start // block + crossed.to(tl.int32)
            within = tl.where(crossed, within - block, within)
        page = tl.load(table + b * table_b + index, mask=s_mask, other=0).to(tl.int64)
        mask = s_mask[:, None] & (h < H)[None, :]
        k_at = page * k_p + head.to(tl.int64) * k_k + within.to(tl.int64) * k_s
        b_k = tl.load(k + k_at[:, None] + h[None, :], mask=mask, other=0.0)
        v_at = page * v_p + head.to(tl.int64) * v_k + within.to(tl.int64) * v_s
        b_v = tl.load(v + v_at[:, None] + h[None, :], mask=mask, other=0.0)

        # "ieee", or TF32 would round float32 to ten bits.
        scores = tl.dot(b_q, tl.trans(b_k), input_precision="ieee") * log2_scale
        scores = tl.where(s_mask[None, :], scores, float("-inf"))
        new_high = tl.maximum(high, tl.max(scores, 1))
        shrink = tl.exp2(high - new_high)
        weights = tl.exp2(scores - new_high[:, None])
        total = total * shrink + tl.sum(weights, 1)
        acc = acc * shrink[:, None]
        acc += tl.dot(weights.to(b_v.dtype), b_v, input_precision="ieee")
        high = new_high

    # An empty part has a sum of zero: its output is zero, and its logarithm stays minus infinity
    # because `high` is.
    total = tl.where(total > 0, total, 1.0)
    acc = acc / total[:, None]
    if DIRECT:
        at = b * out_b + n[:, None] * out_n + h[None, :]
        tl.store(out + at, acc.to(out.dtype.element_ty), mask=q_mask)
    else:
        at = (b * (K * GROUP) + n) * splits + split
        tl.store(partial + at[:, None] * H + h[None, :], acc, mask=q_mask)
        tl.store(logsum + at, high + tl.log2(total), mask=row < GROUP)


@triton.jit(do_not_specialize=["splits"])
def _merge(
    partial, logsum, out, out_b, out_n, splits,
    N: tl.constexpr, H: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    """Merge the parts of one head: a mean of their outputs, weighted by 2 ** logsum.

    Grid: (B * N,). Reads `splits` rows of `partial` [B, N, splits, H] and `logsum`, writes one.
    """
    program = tl.program_id(0).to(tl.int64)
    h = tl.arange(0, BLOCK_H)
    high = float("-inf")
    total = 0.0
    acc = tl.zeros([BLOCK_H], tl.float32)
    for first in tl.range(0, splits, BLOCK_P):
        i = first + tl.arange(0, BLOCK_P)
        at = program * splits + i
        part = tl.load(logsum + at, mask=i < splits, other=float("-inf"))
        mask = (i < splits)[:, None] & (h < H)[None, :]
        rows = tl.load(partial + at[:, None] * H + h[None, :], mask=mask, other=0.0)
        new_high = tl.maximum(high, tl.max(part, 0))
        # All parts of an empty sequence are empty; minus infinity less itself would be no number.
        finite = tl.where(new_high == float("-inf"), 0.0, new_high)
        shrink = tl.exp2(high - finite)
        weights = tl.exp2(part - finite)
        total = total * shrink + tl.sum(weights, 0)
        acc = acc * shrink + tl.sum(weights[:, None] * rows, 0)
        high = new_high
    acc = acc / tl.where(total > 0, total, 1.0)
    at = (program // N) * out_b + (program % N) * out_n + h
    tl.store(out + at, acc.to(out.dtype.element_ty), mask=h < H)


def decode_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: Tensor,
    lens: Tensor,
    scale: float,
    *,
    max_len: int | None = None,
    splits: int | None = None,
) -> Tensor:
    """Launch the kernels; arguments and result as in the package's docstring.

    Args:
        max_len: the largest of `lens` where the host knows it, else the table's capacity. It only
            chooses the number of splits: lengths themselves are read on the device.
        splits: parts a sequence is cut into; None chooses by multiprocessors and `max_len`.

    Raises:
        ValueError: tensors that do not fit together, with their shapes.
        UnfitError: a device or dtype that these kernels cannot run on.
    """
    _check(q, k, v, table, lens)
    B, N, H = q.shape
    K, block = k.shape[1], k.shape[2]
    tile = tiles(q.dtype, N // K, H, block)
    programs = B * K * -(-(N // K) // tile["BLOCK_M"])
    if splits is None:
        longest = table.shape[1] * block if max_len is None else max_len
        splits = choose_splits(programs, longest, target(q.device).units)

    out = torch.empty((B, N, H), dtype=q.dtype, device=q.device)
    direct = splits == 1
    # Nothing is written to these when there is one split; `out` stands in for them.
    partial = logsum = out
    if not direct:
        partial = torch.empty((B, N, splits, H), dtype=torch.float32, device=q.device)
        logsum = torch.empty((B, N, splits), dtype=torch.float32, device=q.device)
    with torch.cuda.device_of(q):
        _attend[(programs, splits)](
            q, k, v, table, lens, out, partial, logsum,
            scale, q.stride(0), q.stride(1), k.stride(0), k.stride(1), k.stride(2),
            v.stride(0), v.stride(1), v.stride(2), table.stride(0), out.stride(0), out.stride(1),
            block, splits, K=K, GROUP=N // K, H=H, DIRECT=direct, **tile,
        )  # fmt: skip
        if not direct:
            _merge[(B * N,)](
                partial, logsum, out, out.stride(0), out.stride(1), splits,
                N=N, H=H, BLOCK_H=tile["BLOCK_H"], BLOCK_P=16, num_warps=4,
            )  # fmt: skip
    return out


def tiles(dtype: torch.dtype, group: int, head_dim: int, block: int) -> dict[str, int]:
    """Tile sizes and launch options of `_attend`: what is compiled for a model's numbers.

    A tile of K or V is at most 16 KiB, so that two of each stay within the 99 KiB of shared
    memory of consumer devices (sm_89, sm_120); in float32, which has no matrix units, at most
    8 KiB, or the operands spill (376 bytes a thread on sm_90 at H = 128).
    """
    BLOCK_H = max(16, triton.next_power_of_2(head_dim))
    tile_bytes = 8192 if dtype == torch.float32 else 16384
    BLOCK_S = max(16, min(64, tile_bytes // (BLOCK_H * dtype.itemsize)))
    return {
        "BLOCK_M": min(MAX_ROWS, max(MIN_ROWS, triton.next_power_of_2(group))),
        "BLOCK_H": BLOCK_H,
        "BLOCK_S": BLOCK_S,
        "PAGE": block if block < BLOCK_S else 0,
        "num_warps": 4,
        "num_stages": 3,
    }


def choose_splits(programs: int, max_len: int, multiprocessors: int) -> int:
    """Parts to cut each sequence into, from the device's size and the work, no fixed threshold.

    The fewest parts that keep the device within 15 % of its best occupancy: all programs run in
    waves of `multiprocessors * RESIDENT`, and a last wave that is nearly empty wastes the rest.
    A part has MIN_SPLIT_TOKENS at least.
    """
    most = max(1, min(MAX_SPLITS, -(-max_len // MIN_SPLIT_TOKENS)))
    return _fewest_parts(programs, most, multiprocessors * RESIDENT)


# Asked once a layer and step; `most` changes every MIN_SPLIT_TOKENS tokens.
@cache
def _fewest_parts(programs: int, most: int, slots: int) -> int:
    def occupancy(parts: int) -> float:
        return programs * parts / slots / -(-programs * parts // slots)

    best = max(occupancy(parts) for parts in range(1, most + 1))
    return next(parts for parts in range(1, most + 1) if occupancy(parts) >= 0.85 * best)


def _check(q: Tensor, k: Tensor, v: Tensor, table: Tensor, lens: Tensor) -> None:
    """Everything the kernels take for granted."""
    require("decode_attention", q, DTYPES)

    def refuse(what: str) -> ValueError:
        shapes = ", ".join(
            f"{name} {tuple(t.shape)} {t.dtype} strides {t.stride()}"
            for name, t in (("q", q), ("k", k), ("v", v), ("table", table), ("lens", lens))
        )
        return ValueError(f"decode_attention: {what}; got {shapes}")

    if q.dim() != 3 or k.dim() != 4 or v.shape != k.shape or k.shape[3] != q.shape[2]:
        raise refuse("q must be [B, N, H], k and v [P, K, block, H]")
    if table.dim() != 2 or lens.dim() != 1 or not q.shape[0] == table.shape[0] == lens.shape[0]:
        raise refuse("table must be [B, pages] and lens [B]")
    if q.shape[1] % k.shape[1]:
        raise refuse("the query heads must be a multiple of the key/value heads")
    if q.shape[2] > MAX_HEAD_DIM:
        raise refuse(f"the head dimension must be at most {MAX_HEAD_DIM}")
    if not q.dtype == k.dtype == v.dtype:
        raise refuse("q, k and v must have one dtype")
    if not table.dtype == lens.dtype == torch.int32:
        raise refuse("table and lens must be int32")
    if len({t.device for t in (q, k, v, table, lens)}) > 1:
        raise refuse("all tensors must be on one device")
    if any(t.stride(-1) != 1 for t in (q, k, v, table)) or not lens.is_contiguous():
        raise refuse("the last dimension must have stride 1")
