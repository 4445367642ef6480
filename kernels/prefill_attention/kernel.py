"""Attention of a ragged batch over pages in Triton: FlashAttention's one pass, tiles skipped.

    out[t, n] = softmax(scale * q[t, n] . k[b, :, n // (N/K)] + mask) @ v[b, :, n // (N/K)]

The rows of a sequence and the query heads that share a key/value head are packed into the rows of
one `tl.dot`, so a short chunk with many heads a group fills a tile as a long prompt does. Keys that
no row of a tile sees are never read; tiles that every row sees whole are not masked. Reads q once,
and 2SKH numbers of state for every BLOCK_M packed rows; writes TNH. Sources: arXiv:2307.08691;
arXiv:2309.06180 for pages.
"""

from collections.abc import Mapping

import torch
import triton
import triton.language as tl
from torch import Tensor

from harness.kernels.prefill_attention.arguments import check
from harness.kernels.prefill_attention.lengths import Lengths
from harness.kernels.prefill_attention.tiles import packed_rows, scan, visible
from harness.launch import INTERPRETED, target, tuned


# Numbers that vary while an engine runs are not specialised on, or each would recompile.
@triton.jit(do_not_specialize=["table_b", "mask_t", "B", "block", "causal_block", "window"])
def _attend(
    q, k, v, k_scale, v_scale, table, lens, cu_seqlens, mask, positions, out,
    scale, softcap, q_t, q_n, k_p, k_k, k_s, v_p, v_k, v_s, scale_p, scale_k, table_b, mask_t,
    out_t, out_n, B, block, causal_block, window,
    GROUP: tl.constexpr, H: tl.constexpr, PAGE: tl.constexpr, WINDOWED: tl.constexpr,
    SOFTCAP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """BLOCK_M packed rows of one sequence and key/value head; packed row m is token m // GROUP.

    Grid: (T * GROUP // BLOCK_M + B, K). Sequence b begins at tile cu_seqlens[b] * GROUP // BLOCK_M
    + b, which leaves it room for all its tiles whatever the lengths are, so that the host need not
    know them; programs of tiles that are not there end at once. PAGE is the page size where it is
    below BLOCK_S, so that the division is by a constant; 0 where pages are larger.
    """
    # The last tiles of a sequence see most: they go first, so that none of them is left for last.
    wanted = tl.num_programs(0) - 1 - tl.program_id(0)
    head = tl.program_id(1).to(tl.int64)
    before = tl.full([], 0, tl.int32)
    for i in tl.range(0, B, 128):
        at = i + tl.arange(0, 128)
        tiles = tl.load(cu_seqlens + at, mask=at < B, other=0) * GROUP // BLOCK_M + at
        before += tl.sum(((tiles <= wanted) & (at < B)).to(tl.int32), 0)
    b = before - 1
    begin = tl.load(cu_seqlens + b)
    rows = tl.load(cu_seqlens + b + 1) - begin
    tile = wanted - (begin * GROUP // BLOCK_M + b)
    if tile * BLOCK_M >= rows * GROUP:
        return

    token, row, n, row_mask = packed_rows(tile, begin, rows, head, GROUP, BLOCK_M)
    h = tl.arange(0, BLOCK_H)
    q_mask = row_mask[:, None] & (h < H)[None, :]
    b_q = tl.load(q + row[:, None] * q_t + n[:, None] * q_n + h[None, :], mask=q_mask, other=0.0)

    length = tl.load(lens + b)
    left, limit, first, last = visible(
        token, row, length, rows, mask, positions, causal_block, window, WINDOWED, BLOCK_M, BLOCK_S
    )
    if mask is not None:
        bias = mask + row * mask_t
        all_see = length - rows
    else:
        bias = None
        all_see = tl.min(limit, 0)
    # The tiles between `full` and `part` are seen whole by every row.
    full = tl.minimum(tl.maximum(tl.cdiv(tl.max(left, 0) + 1, BLOCK_S) * BLOCK_S, first), last)
    part = tl.minimum(tl.maximum(all_see // BLOCK_S * BLOCK_S, full), last)

    k += head * k_k
    v += head * v_k
    table += b.to(tl.int64) * table_b
    if k_scale is not None:
        k_scale += head * scale_k
        v_scale += head * scale_k
    high = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_H], tl.float32)
    # The window's edge, what all see, the causal edge.
    for stretch in tl.static_range(0 if WINDOWED else 1, 3):
        if stretch == 0:
            start, end = first, full
        elif stretch == 1:
            start, end = full, part
        else:
            start, end = part, last
        acc, high, total = scan(
            acc, high, total, b_q, k, v, k_scale, v_scale, table, bias, start, end, k_s, v_s, k_p,
            v_p, scale_p, block, length, rows, left, limit, row_mask, scale, softcap,
            stretch != 1, WINDOWED, SOFTCAP, PAGE, H, BLOCK_H, BLOCK_S,
        )  # fmt: skip
    # A row that sees nothing has a sum of zero: its output is zero.
    acc = acc / tl.where(total > 0, total, 1.0)[:, None]
    at = row[:, None] * out_t + n[:, None] * out_n + h[None, :]
    tl.store(out + at, acc.to(out.dtype.element_ty), mask=q_mask)


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
    config: Mapping[str, int] | None = None,
) -> Tensor:
    """Launch the kernel; arguments and result as in the package's docstring.

    Args:
        lengths: not needed: lengths are read on the device, and the grid follows from T and B.
        config: tile sizes and launch options; None takes the tuned table or `default`.

    Raises:
        ValueError: tensors that do not fit together, with their shapes.
        UnfitError: a device or dtype that this kernel cannot run on.
    """
    del lengths
    tensors = {"q": q, "k": k, "v": v, "table": table, "lens": lens, "cu_seqlens": cu_seqlens}
    optional = {"mask": mask, "positions": positions, "k_scale": k_scale, "v_scale": v_scale}
    tensors |= {name: each for name, each in optional.items() if each is not None}
    check("prefill_attention", tensors, scale, causal_block)
    T, N, H = q.shape
    B, K, block = lens.shape[0], k.shape[1], k.shape[2]
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    if T == 0:
        return out
    arch = target(q.device).arch
    if config is None:
        dtype = str(q.dtype).removeprefix("torch.")
        name = f"H{H} {'long' if T >= 1024 * B else 'short'}"
        config = tuned("prefill_attention", arch, dtype, name) or default(
            arch, q.dtype, H, T * (N // K) // B, masked=mask is not None
        )
    tile = dict(config)
    BLOCK_M, BLOCK_S = tile["BLOCK_M"], tile["BLOCK_S"]
    scales = (0, 0) if k_scale is None else k_scale.stride()[:2]
    with torch.cuda.device_of(q):
        _attend[(T * (N // K) // BLOCK_M + B, K)](
            q, k, v, k_scale, v_scale, table, lens, cu_seqlens, mask, positions, out,
            scale, softcap, q.stride(0), q.stride(1), k.stride(0), k.stride(1), k.stride(2),
            v.stride(0), v.stride(1), v.stride(2), *scales, table.stride(0),
            0 if mask is None else mask.stride(0), out.stride(0), out.stride(1),
            B, block, causal_block, window,
            GROUP=N // K, H=H, PAGE=block if block < BLOCK_S else 0, WINDOWED=window > 0,
            SOFTCAP=softcap > 0, BLOCK_H=max(16, triton.next_power_of_2(H)), **tile,
        )  # fmt: skip
    return out


def default(
    arch: str, dtype: torch.dtype, head_dim: int, packed_rows: int, *, masked: bool = False
) -> dict[str, int]:
    """Tile sizes and launch options where nothing was tuned, for so many packed rows a sequence.

    Sixteen bits: the tiles of q, k and v in flight stay within the target's shared memory, of which
    consumer devices (sm_86, sm_89, sm_120) have 99 KiB a block and gfx942 64 KiB, and the rest
    within its registers: on sm_80 tiles of 64 tokens at H = 128 spilled 72 bytes a thread, and so
    did a mask's beside them everywhere. float32 has no matrix units here, its operands live in
    registers, and large tiles would spill.
    """
    if arch == INTERPRETED:
        # Small tests meet several tiles of each kind.
        return {"BLOCK_M": 16, "BLOCK_S": 16, "num_warps": 4, "num_stages": 1}
    wide = head_dim > 128
    if dtype == torch.float32:
        return {"BLOCK_M": 16, "BLOCK_S": 16 if wide else 32, "num_warps": 4, "num_stages": 2}
    long = packed_rows > 64
    if arch in ("sm_80", "sm_90", "sm_100"):
        # sm_80 keeps its products' operands in registers: fewer rows a thread there.
        tight = arch == "sm_80" and head_dim > 64
        small = wide or masked or tight
        return {
            "BLOCK_M": 128 if long and not tight else 64,
            "BLOCK_S": 32 if small else 64,
            "num_warps": 8 if long or tight else 4,
            "num_stages": 2 if wide else 3,
        }
    return {
        "BLOCK_M": 64,
        "BLOCK_S": 16 if wide else 32,
        "num_warps": 4,
        "num_stages": 1 if arch.startswith("gfx") else 2,
    }


def candidates(shape: Mapping[str, int], dtype: str, arch: str) -> list[dict[str, int]]:
    """What tuning tries, the default first."""
    rows = (shape["T"] or shape["S"]) * shape["N"] // shape["K"]
    masked = bool(shape["mask"])
    first = default(arch, getattr(torch, dtype), shape["H"], rows, masked=masked)
    if dtype == "float32":
        return [first]
    tried = [
        {"BLOCK_M": M, "BLOCK_S": S, "num_warps": warps, "num_stages": stages}
        for M, warps in ((64, 4), (128, 4), (128, 8))
        for S in (32, 64, 128)
        for stages in (2, 3, 4)
    ]
    return [first, *(each for each in tried if each != first)]
