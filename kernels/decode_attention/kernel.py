"""Decode attention in Triton: split over the cached tokens, grouped queries in one matrix product.

    out[t, n] = softmax(scale * q[t, n] . k[b, :, n // (N/K)] + mask) @ v[b, :, n // (N/K)]

The query heads that share a key/value head, and the rows of a draft, are the rows of one `tl.dot`,
so K and V are read once a group: 2BSKH numbers in, TNH out. Sequences are cut into parts along the
cached tokens, as many as keep the device busy; each part leaves its normalised output and the
logarithm of its sum, and a second kernel merges them. Sources: Flash-Decoding (Dao et al. 2023);
arXiv:2309.06180 for pages.
"""

from collections.abc import Mapping

import torch
import triton
import triton.language as tl
from torch import Tensor

from harness.kernels.decode_attention import MAX_ROWS, bucket
from harness.kernels.decode_attention.grid import block_m, least_part, plan
from harness.kernels.decode_attention.parts import cut
from harness.kernels.prefill_attention.arguments import check
from harness.kernels.prefill_attention.lengths import Lengths
from harness.kernels.prefill_attention.tiles import packed_rows, scan, visible
from harness.launch import INTERPRETED, target, tuned


# Numbers that vary while an engine runs are not specialised on, or each would recompile.
@triton.jit(
    do_not_specialize=[
        "table_b", "mask_t", "B", "block", "causal_block", "window", "max_rows", "tiles", "splits",
        "wanted", "least",
    ]
)  # fmt: skip
def _attend(
    q, k, v, k_scale, v_scale, table, lens, cu_seqlens, mask, positions, out, partial, logsum,
    scale, softcap, q_t, q_n, k_p, k_k, k_s, v_p, v_k, v_s, scale_p, scale_k, table_b, mask_t,
    out_t, out_n, B, block, causal_block, window, max_rows, tiles, splits, wanted, least,
    K: tl.constexpr, GROUP: tl.constexpr, H: tl.constexpr, PAGE: tl.constexpr,
    WINDOWED: tl.constexpr, SOFTCAP: tl.constexpr, DIRECT: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """One part of one sequence for BLOCK_M packed rows of one key/value head.

    Packed row m is row m // GROUP of the sequence. Grid: (B * K * tiles, splits), parts as `cut`
    says. PAGE is the page size where it is below BLOCK_S, so that the division is by a constant; 0
    where pages are larger.
    DIRECT: there is one split, so `out` is written at once.
    """
    program = tl.program_id(0)
    split = tl.program_id(1)
    b = (program // (K * tiles)).to(tl.int64)
    head = ((program // tiles) % K).to(tl.int64)
    begin = b.to(tl.int32)
    rows = 1
    if cu_seqlens is not None:
        begin = tl.load(cu_seqlens + b)
        rows = tl.load(cu_seqlens + b + 1) - begin
    tile = program % tiles
    if tile * BLOCK_M >= rows * GROUP:
        return

    token, row, n, row_mask = packed_rows(tile, begin, rows, head, GROUP, BLOCK_M)
    h = tl.arange(0, BLOCK_H)
    q_mask = row_mask[:, None] & (h < H)[None, :]
    length = tl.load(lens + b)
    left, limit, first, last = visible(
        token, row, length, rows, mask, positions, causal_block, window, WINDOWED, BLOCK_M, BLOCK_S
    )
    bias = None
    if mask is not None:
        bias = mask + row * mask_t

    if not DIRECT:
        first, last, parts = cut(
            split, first, last, lens, B, K * tiles, wanted, splits, least, window, max_rows,
            WINDOWED, BLOCK_S,
        )  # fmt: skip
        if split >= parts:
            # Nothing is left for this part: the merge must pass over it.
            at = (row * (K * GROUP) + n) * splits + split
            tl.store(logsum + at, tl.full([BLOCK_M], float("-inf"), tl.float32), mask=row_mask)
            return

    b_q = tl.load(q + row[:, None] * q_t + n[:, None] * q_n + h[None, :], mask=q_mask, other=0.0)
    k += head * k_k
    v += head * v_k
    table += b * table_b
    if k_scale is not None:
        k_scale += head * scale_k
        v_scale += head * scale_k
    high = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_H], tl.float32)
    acc, high, total = scan(
        acc, high, total, b_q, k, v, k_scale, v_scale, table, bias, first, last, k_s, v_s, k_p,
        v_p, scale_p, block, length, rows, left, limit, row_mask, scale, softcap,
        True, WINDOWED, SOFTCAP, PAGE, H, BLOCK_H, BLOCK_S,
    )  # fmt: skip

    # A part in which a row sees nothing has a sum of zero: its output is zero, and its logarithm
    # stays minus infinity because `high` is.
    total = tl.where(total > 0, total, 1.0)
    acc = acc / total[:, None]
    if DIRECT:
        at = row[:, None] * out_t + n[:, None] * out_n + h[None, :]
        tl.store(out + at, acc.to(out.dtype.element_ty), mask=q_mask)
    else:
        at = (row * (K * GROUP) + n) * splits + split
        tl.store(partial + at[:, None] * H + h[None, :], acc, mask=q_mask)
        tl.store(logsum + at, high + tl.log2(total), mask=row_mask)


@triton.jit(do_not_specialize=["splits"])
def _merge(
    partial, logsum, out, out_t, out_n, splits,
    N: tl.constexpr, H: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    """Merge the parts of one head: a mean of their outputs, weighted by 2 ** logsum.

    Grid: (T * N,). Reads of `partial` [T, N, splits, H] the parts that have a `logsum`, writes one.
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
        mask = (part > float("-inf"))[:, None] & (h < H)[None, :]
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
    at = (program // N) * out_t + (program % N) * out_n + h
    tl.store(out + at, acc.to(out.dtype.element_ty), mask=h < H)


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
    splits: int | None = None,
    config: Mapping[str, int] | None = None,
) -> Tensor:
    """Launch the kernels; arguments and result as in the package's docstring.

    Args:
        lengths: rows and lengths where the host knows them. They choose the grid, never the values;
            without them it follows from B, MAX_ROWS (with `cu_seqlens`) and the table's capacity.
        splits: parts that every sequence is cut into; None chooses by device and lengths.
        config: tile sizes and launch options; None takes the tuned table or `default`.

    Raises:
        ValueError: tensors that do not fit together, with their shapes.
        UnfitError: a device or dtype that these kernels cannot run on.
    """
    tensors = {"q": q, "k": k, "v": v, "table": table, "lens": lens}
    optional = {"cu_seqlens": cu_seqlens, "mask": mask, "positions": positions}
    optional |= {"k_scale": k_scale, "v_scale": v_scale}
    tensors |= {name: each for name, each in optional.items() if each is not None}
    check("decode_attention", tensors, scale, causal_block)
    (T, N, H), B, K, block = q.shape, lens.shape[0], k.shape[1], k.shape[2]
    max_rows = 1
    if cu_seqlens is not None:
        max_rows = min(MAX_ROWS, T) if lengths is None else lengths.max_rows
    if max_rows > MAX_ROWS or (cu_seqlens is None and T != B):
        raise ValueError(
            f"decode_attention takes 1 to {MAX_ROWS} rows a sequence, one each without cu_seqlens; "
            f"got {T} rows of {B} sequences, {max_rows} of one at most: use prefill_attention"
        )
    device = target(q.device)
    packed = max_rows * (N // K)
    BLOCK_M = block_m(packed)
    if config is None:
        shape = {"H": H, "draft": max_rows - 1, "N": N, "K": K}
        shape |= {"int8": int(k.dtype == torch.int8), "fp8": int(k.dtype == torch.float8_e4m3fn)}
        dtype = str(q.dtype).removeprefix("torch.")
        config = tuned("decode_attention", device.arch, dtype, bucket(shape))
    tile = dict(config or default(device.arch, q.dtype, H, BLOCK_M))
    tiles = -(-packed // BLOCK_M)
    least, wanted = least_part(device.arch), 2**30
    if splits is None:
        longest = table.shape[1] * block if lengths is None else lengths.max_len
        total = B * longest if lengths is None else lengths.total_len
        if window and window + max_rows < longest:
            longest = window + max_rows
            total = min(total, B * longest)
        splits, wanted = plan(
            K * tiles, longest, total, device.units, least, exact=lengths is not None
        )
    else:
        least = 1

    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    direct = splits == 1
    # Nothing is written to these when there is one split; `out` stands in for them.
    partial = logsum = out
    if not direct:
        partial = torch.empty((T, N, splits, H), dtype=torch.float32, device=q.device)
        logsum = torch.empty((T, N, splits), dtype=torch.float32, device=q.device)
    scales = (0, 0) if k_scale is None else k_scale.stride()[:2]
    BLOCK_H = max(16, triton.next_power_of_2(H))
    with torch.cuda.device_of(q):
        _attend[(B * K * tiles, splits)](
            q, k, v, k_scale, v_scale, table, lens, cu_seqlens, mask, positions, out, partial,
            logsum, scale, softcap, q.stride(0), q.stride(1), k.stride(0), k.stride(1), k.stride(2),
            v.stride(0), v.stride(1), v.stride(2), *scales, table.stride(0),
            0 if mask is None else mask.stride(0), out.stride(0), out.stride(1),
            B, block, causal_block, window, max_rows, tiles, splits, wanted, least,
            K=K, GROUP=N // K, H=H, PAGE=block if block < tile["BLOCK_S"] else 0,
            WINDOWED=window > 0, SOFTCAP=softcap > 0, DIRECT=direct, BLOCK_M=BLOCK_M,
            BLOCK_H=BLOCK_H, **tile,
        )  # fmt: skip
        if not direct:
            _merge[(T * N,)](
                partial, logsum, out, out.stride(0), out.stride(1), splits,
                N=N, H=H, BLOCK_H=BLOCK_H, BLOCK_P=16, num_warps=4,
            )  # fmt: skip
    return out


def default(arch: str, dtype: torch.dtype, head_dim: int, BLOCK_M: int) -> dict[str, int]:
    """Tile sizes and launch options where nothing was tuned.

    A tile of K or V is at most 16 KiB, so that two of each stay within the 99 KiB of shared
    memory of consumer devices (sm_89, sm_120); in float32, which has no matrix units, at most
    8 KiB, or the operands spill (376 bytes a thread on sm_90 at H = 128). The products of 64 packed
    rows need more threads for the same reason.
    """
    if arch == INTERPRETED:
        # Small tests meet several tiles.
        return {"BLOCK_S": 16, "num_warps": 4, "num_stages": 1}
    BLOCK_H = max(16, triton.next_power_of_2(head_dim))
    tile_bytes = 8192 if dtype == torch.float32 else 16384
    BLOCK_S = max(16, min(64, tile_bytes // (BLOCK_H * dtype.itemsize)))
    # As for 64 rows: on sm_80 eight-bit tiles of H = 128 spilled 16 bytes a thread of four warps.
    warps = 8 if BLOCK_M > 32 or (arch == "sm_80" and head_dim > 64) else 4
    return {"BLOCK_S": BLOCK_S, "num_warps": warps, "num_stages": 3}


def candidates(shape: Mapping[str, int], dtype: str, arch: str) -> list[dict[str, int]]:
    """What tuning tries, the default first."""
    packed = (1 + shape["draft"]) * shape["N"] // shape["K"]
    first = default(arch, getattr(torch, dtype), shape["H"], block_m(packed))
    tried = [
        {"BLOCK_S": S, "num_warps": warps, "num_stages": stages}
        for S in (16, 32, 64, 128)
        for warps in (2, 4, 8)
        for stages in (2, 3, 4)
    ]
    return [first, *(each for each in tried if each != first and dtype != "float32")]
