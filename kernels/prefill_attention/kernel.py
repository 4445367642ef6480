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

from harness.errors import UnfitError
from harness.kernels.prefill_attention.lengths import Lengths
from harness.launch import INTERPRETED, require, target, tuned

MAX_HEAD_DIM = 256
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
QUANTISED = (torch.int8, torch.float8_e4m3fn)
LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def _tanh(x):
    """To within two roundings of float32: 1 - 2 / (e^2x + 1) alone would lose small x."""
    z = x * x
    # Chebyshev fit of (tanh(x) / x - 1) / x^2 for |x| <= 0.6, off by 1e-8 of tanh(x) at most.
    small = -0.00627639 * z + 0.02111622
    small = small * z - 0.05387514
    small = small * z + 0.13332924
    small = small * z - 0.3333333
    small = small * z * x + x
    far = 1.0 - 2.0 / (tl.exp2(tl.abs(x) * (2.0 * LOG2_E)) + 1.0)
    return tl.where(tl.abs(x) <= 0.6, small, tl.where(x < 0, -far, far))


@triton.jit
def _locate(table, s, start, length, block, PAGE: tl.constexpr):
    """Page, and place within it, of the keys s of one tile, which begins at `start`."""
    inside = s < length
    if PAGE > 0:
        index = s // PAGE
        within = s % PAGE
    else:
        # A tile meets two pages at most.
        within = start % block + (s - start)
        crossed = within >= block
        index = start // block + crossed.to(tl.int32)
        within = tl.where(crossed, within - block, within)
    page = tl.load(table + index, mask=inside, other=0).to(tl.int64)
    return page, within.to(tl.int64), inside


@triton.jit
def _scan(
    acc, high, total, b_q, k, v, k_scale, v_scale, table, bias, first, last, k_s, v_s, k_p, v_p,
    scale_p, block, length, held, rows, left, limit, row_mask, in_factor, factor, softcap,
    HIDDEN: tl.constexpr, WINDOWED: tl.constexpr, SOFTCAP: tl.constexpr, PAGE: tl.constexpr,
    H: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Attend with one tile of rows over the keys from `first` to `last`, tile by tile.

    Pointers are the sequence's and head's own; `bias` is the mask's first column for each row, or
    None. HIDDEN: some row may not see some key here, so each is asked for.
    """
    h = tl.arange(0, BLOCK_H)
    j = tl.arange(0, BLOCK_S)
    order = j
    if k_scale is not None:
        # Even tokens, then odd ones. Values of eight bits go through this order on their way to
        # the product: straight on, they would be copied in pieces of 64 bits instead of 128.
        order = j % (BLOCK_S // 2) * 2 + j // (BLOCK_S // 2)
    for start in tl.range(first, last, BLOCK_S):
        s = start + order
        page, within, inside = _locate(table, s, start, length, block, PAGE)
        k_at = page * k_p + within * k_s
        mask = inside[:, None] & (h < H)[None, :]
        b_k = tl.load(k + k_at[:, None] + h[None, :], mask=mask, other=0.0)
        if k_scale is not None:
            v_page, v_within, v_inside = _locate(table, start + j, start, length, block, PAGE)
            v_at = v_page * v_p + v_within * v_s
            mask = v_inside[:, None] & (h < H)[None, :]
            b_v = tl.load(v + v_at[:, None] + h[None, :], mask=mask, other=0.0).to(b_q.dtype)
            b_v = tl.permute(tl.reshape(b_v, [BLOCK_S // 2, 2, BLOCK_H]), [1, 0, 2])
            b_v = tl.reshape(b_v, [BLOCK_S, BLOCK_H])
        else:
            v_at = page * v_p + within * v_s
            b_v = tl.load(v + v_at[:, None] + h[None, :], mask=mask, other=0.0)

        # "ieee", or TF32 would round float32 to ten bits.
        scores = tl.dot(b_q, tl.trans(b_k.to(b_q.dtype)), input_precision="ieee")
        if k_scale is not None:
            each = tl.load(k_scale + page * scale_p + within, mask=inside, other=0.0)
            scores = scores * each[None, :]
        if SOFTCAP:
            scores = softcap * _tanh(scores * in_factor)
        if HIDDEN:
            seen = s[None, :] < limit[:, None]
            if WINDOWED:
                near = s[None, :] > left[:, None]
                if bias is not None:
                    near = near | (s >= held)[None, :]
                seen = seen & near
            if bias is not None:
                # What the mask says of a sequence's own rows is added, in the unit of the scores.
                own = (s >= held) & (s < held + rows)
                at = bias[:, None] + (s - held)[None, :]
                added = tl.load(at, mask=row_mask[:, None] & own[None, :], other=0.0)
                scores = scores + added * (LOG2_E / factor)
            scores = tl.where(seen, scores, float("-inf"))

        # Exponentials are to base 2, which the hardware has; the maximum is taken before scaling,
        # so that scaling and subtracting are one instruction.
        new_high = tl.maximum(high, tl.max(scores, 1) * factor)
        base = new_high
        if HIDDEN:
            # A row that has seen nothing yet: minus infinity less itself would be no number.
            base = tl.where(new_high == float("-inf"), 0.0, new_high)
        shrink = tl.exp2(high - base)
        weights = tl.exp2(scores * factor - base[:, None])
        total = total * shrink + tl.sum(weights, 1)
        acc = acc * shrink[:, None]
        if v_scale is not None:
            each = tl.load(v_scale + page * scale_p + within, mask=inside, other=0.0)
            weights = weights * each[None, :]
        acc += tl.dot(weights.to(b_q.dtype), b_v, input_precision="ieee")
        high = new_high
    return acc, high, total


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

    packed = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    row_mask = packed < rows * GROUP
    # Packed rows past the end stand for the last one again: none of them widens a bound below.
    token = tl.minimum(packed // GROUP, rows - 1)
    row = (begin + token).to(tl.int64)
    n = head * GROUP + packed % GROUP
    h = tl.arange(0, BLOCK_H)
    q_mask = row_mask[:, None] & (h < H)[None, :]
    b_q = tl.load(q + row[:, None] * q_t + n[:, None] * q_n + h[None, :], mask=q_mask, other=0.0)

    # A row sees the keys left < s < limit.
    length = tl.load(lens + b)
    held = length - rows
    place = held + token
    if mask is not None:
        bias = mask + row * mask_t
        limit = tl.full([BLOCK_M], 0, tl.int32) + length
        all_see = held
    else:
        bias = None
        limit = tl.minimum((place // causal_block + 1) * causal_block, length)
        all_see = tl.min(limit, 0)
    left = tl.full([BLOCK_M], -1, tl.int32)
    if WINDOWED:
        if positions is not None:
            place = tl.load(positions + row)
        left = place - window
    first = tl.maximum(tl.min(left, 0) + 1, 0) // BLOCK_S * BLOCK_S
    last = tl.max(limit, 0)
    # The tiles between `full` and `part` are seen whole by every row.
    full = tl.minimum(tl.maximum(tl.cdiv(tl.max(left, 0) + 1, BLOCK_S) * BLOCK_S, first), last)
    part = tl.minimum(tl.maximum(all_see // BLOCK_S * BLOCK_S, full), last)

    if SOFTCAP:
        in_factor = scale / softcap
        factor = LOG2_E * 1.0
    else:
        in_factor = 1.0
        factor = scale * LOG2_E
    k += head * k_k
    v += head * v_k
    table += b.to(tl.int64) * table_b
    if k_scale is not None:
        k_scale += head * scale_k
        v_scale += head * scale_k
    high = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_H], tl.float32)
    if WINDOWED:
        acc, high, total = _scan(
            acc, high, total, b_q, k, v, k_scale, v_scale, table, bias, first, full, k_s, v_s, k_p,
            v_p, scale_p, block, length, held, rows, left, limit, row_mask, in_factor, factor,
            softcap, True, WINDOWED, SOFTCAP, PAGE, H, BLOCK_H, BLOCK_S,
        )  # fmt: skip
    acc, high, total = _scan(
        acc, high, total, b_q, k, v, k_scale, v_scale, table, bias, full, part, k_s, v_s, k_p,
        v_p, scale_p, block, length, held, rows, left, limit, row_mask, in_factor, factor,
        softcap, False, WINDOWED, SOFTCAP, PAGE, H, BLOCK_H, BLOCK_S,
    )  # fmt: skip
    acc, high, total = _scan(
        acc, high, total, b_q, k, v, k_scale, v_scale, table, bias, part, last, k_s, v_s, k_p,
        v_p, scale_p, block, length, held, rows, left, limit, row_mask, in_factor, factor,
        softcap, True, WINDOWED, SOFTCAP, PAGE, H, BLOCK_H, BLOCK_S,
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


def check(kernel: str, tensors: Mapping[str, Tensor], scale: float, causal_block: int) -> None:
    """Everything the attention kernels take for granted; optional tensors are left out."""
    q, k, v, table, lens = (tensors[name] for name in ("q", "k", "v", "table", "lens"))
    require(kernel, q, DTYPES)

    def refuse(what: str) -> ValueError:
        shapes = ", ".join(
            f"{name} {tuple(t.shape)} {t.dtype} strides {t.stride()}" for name, t in tensors.items()
        )
        return ValueError(f"{kernel}: {what}; got {shapes}")

    if q.dim() != 3 or k.dim() != 4 or v.shape != k.shape or k.shape[3] != q.shape[2]:
        raise refuse("q must be [T, N, H], k and v [P, K, block, H]")
    B = len(lens) if lens.dim() == 1 else -1
    if table.dim() != 2 or table.shape[0] != B:
        raise refuse("table must be [B, pages] and lens [B]")
    if "cu_seqlens" in tensors and tensors["cu_seqlens"].shape != (B + 1,):
        raise refuse("cu_seqlens must be [B + 1]")
    if q.shape[1] % k.shape[1]:
        raise refuse("the query heads must be a multiple of the key/value heads")
    if q.shape[2] > MAX_HEAD_DIM:
        raise refuse(f"the head dimension must be at most {MAX_HEAD_DIM}")
    if "mask" in tensors and (tensors["mask"].dim() != 2 or len(tensors["mask"]) != len(q)):
        raise refuse("mask must be [T, Q], Q the most rows of a sequence")
    if "positions" in tensors and tensors["positions"].shape != q.shape[:1]:
        raise refuse("positions must be [T]")
    scales = [tensors[name] for name in ("k_scale", "v_scale") if name in tensors]
    if k.dtype != v.dtype or (k.dtype != q.dtype and k.dtype not in QUANTISED):
        raise refuse("k and v must have the dtype of q, or int8 or float8_e4m3fn with scales")
    if len(scales) != 2 * (k.dtype != q.dtype) or any(s.shape != k.shape[:3] for s in scales):
        raise refuse("k_scale and v_scale must be [P, K, block], for pools in int8 or fp8 alone")
    if len(scales) == 2 and scales[0].stride() != scales[1].stride():
        raise refuse("k_scale and v_scale must have the same strides")
    if any(t.dtype != torch.float32 for t in (*scales, tensors.get("mask", lens.float()))):
        raise refuse("mask, k_scale and v_scale must be float32")
    numbers = [tensors[n] for n in ("table", "lens", "cu_seqlens", "positions") if n in tensors]
    if any(t.dtype != torch.int32 for t in numbers):
        raise refuse("table, lens, cu_seqlens and positions must be int32")
    if len({t.device for t in tensors.values()}) > 1:
        raise refuse("all tensors must be on one device")
    if any(t.stride(-1) != 1 for t in tensors.values() if t.numel() > 1):
        raise refuse("the last dimension must have stride 1")
    if scale <= 0 or causal_block < 1:
        raise UnfitError(f"{kernel} needs a scale above 0 and a causal_block of at least 1")
