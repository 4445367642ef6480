"""Decode attention over latents in Triton: split over the cached tokens, each entry loaded once.

    out[t, n] = softmax(scale * q[t, n] . c[b] + mask) @ c[b, :, :R]

The heads of a sequence, and the rows of a draft, are the rows of one `tl.dot`, 16 a program. An
entry comes as two tiles, the latent and the rotated key behind it: two products make the scores,
and the latent's tile is then the value, so BSE numbers are read for every 16 rows (of which all
but the first come from the L2 cache). Parts of a sequence are merged as in `decode_attention`.
"""

from collections.abc import Mapping

import torch
import triton
import triton.language as tl
from torch import Tensor

from harness.kernels.decode_attention import MAX_ROWS
from harness.kernels.decode_attention.grid import least_part, plan
from harness.kernels.decode_attention.kernel import _merge
from harness.kernels.decode_attention.parts import cut
from harness.kernels.mla_decode import bucket
from harness.kernels.prefill_attention.arguments import check
from harness.kernels.prefill_attention.lengths import Lengths
from harness.kernels.prefill_attention.tiles import LOG2_E, locate, packed_rows, visible
from harness.launch import INTERPRETED, target, tuned

# Packed rows a program: an accumulator of 512 numbers a row leaves registers for no more.
BLOCK_M = 16
# The latent's dimension at DeepSeek's size is 512; twice that has no room in shared memory.
MAX_RANK = 512


# Numbers that vary while an engine runs are not specialised on, or each would recompile.
@triton.jit(
    do_not_specialize=[
        "table_b", "mask_t", "B", "block", "causal_block", "tiles", "splits", "wanted", "least",
    ]
)  # fmt: skip
def _attend(
    q, latent, table, lens, cu_seqlens, mask, out, partial, logsum, scale, q_t, q_n, c_p, c_s,
    table_b, mask_t, out_t, out_n, B, block, causal_block, tiles, splits, wanted, least,
    N: tl.constexpr, R: tl.constexpr, E: tl.constexpr, PAGE: tl.constexpr, DIRECT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """One part of one sequence for BLOCK_M packed rows. Grid: (B * tiles, splits).

    Packed row m is head m % N of the sequence's row m // N; parts are cut as `cut` says.
    """
    b = (tl.program_id(0) // tiles).to(tl.int64)
    split = tl.program_id(1)
    begin = b.to(tl.int32)
    rows = 1
    if cu_seqlens is not None:
        begin = tl.load(cu_seqlens + b)
        rows = tl.load(cu_seqlens + b + 1) - begin
    tile = tl.program_id(0) % tiles
    if tile * BLOCK_M >= rows * N:
        return

    token, row, n, row_mask = packed_rows(tile, begin, rows, 0, N, BLOCK_M)
    length = tl.load(lens + b)
    _, limit, first, last = visible(
        token, row, length, rows, mask, None, causal_block, 0, False, BLOCK_M, BLOCK_S
    )
    if not DIRECT:
        first, last, parts = cut(
            split, first, last, lens, B, tiles, wanted, splits, least, 0, 0, False, BLOCK_S
        )
        if split >= parts:
            # Nothing is left for this part: the merge must pass over it.
            at = (row * N + n) * splits + split
            tl.store(logsum + at, tl.full([BLOCK_M], float("-inf"), tl.float32), mask=row_mask)
            return

    r = tl.arange(0, BLOCK_R)
    p = R + tl.arange(0, BLOCK_P)
    q_at = q + row[:, None] * q_t + n[:, None] * q_n
    q_r = tl.load(q_at + r[None, :], mask=row_mask[:, None] & (r < R)[None, :], other=0.0)
    q_p = tl.load(q_at + p[None, :], mask=row_mask[:, None] & (p < E)[None, :], other=0.0)
    table += b * table_b
    held = length - rows
    factor = scale * LOG2_E
    high = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_R], tl.float32)
    for start in tl.range(first, last, BLOCK_S):
        s = start + tl.arange(0, BLOCK_S)
        page, within, inside = locate(table, s, start, length, block, PAGE)
        at = latent + page * c_p + within * c_s
        c_r = tl.load(at[:, None] + r[None, :], mask=inside[:, None] & (r < R)[None, :], other=0.0)
        c_p_ = tl.load(at[:, None] + p[None, :], mask=inside[:, None] & (p < E)[None, :], other=0.0)
        # "ieee", or TF32 would round float32 to ten bits.
        scores = tl.dot(q_r, tl.trans(c_r), input_precision="ieee")
        scores = tl.dot(q_p, tl.trans(c_p_), scores, input_precision="ieee")
        seen = s[None, :] < limit[:, None]
        if mask is not None:
            # What the mask says of a sequence's own rows is added, in the unit of the scores.
            own = (s >= held) & (s < length)
            to = mask + row[:, None] * mask_t + (s - held)[None, :]
            added = tl.load(to, mask=row_mask[:, None] & own[None, :], other=0.0)
            scores = scores + added * (LOG2_E / factor)
        scores = tl.where(seen, scores, float("-inf"))
        new_high = tl.maximum(high, tl.max(scores, 1) * factor)
        # A row that has seen nothing yet: minus infinity less itself would be no number.
        base = tl.where(new_high == float("-inf"), 0.0, new_high)
        shrink = tl.exp2(high - base)
        weights = tl.exp2(scores * factor - base[:, None])
        total = total * shrink + tl.sum(weights, 1)
        acc = acc * shrink[:, None]
        acc += tl.dot(weights.to(c_r.dtype), c_r, input_precision="ieee")
        high = new_high

    # A part in which a row sees nothing has a sum of zero: its output is zero, and its logarithm
    # stays minus infinity because `high` is.
    total = tl.where(total > 0, total, 1.0)
    acc = acc / total[:, None]
    mixed = row_mask[:, None] & (r < R)[None, :]
    if DIRECT:
        at = row[:, None] * out_t + n[:, None] * out_n + r[None, :]
        tl.store(out + at, acc.to(out.dtype.element_ty), mask=mixed)
    else:
        at = (row * N + n) * splits + split
        tl.store(partial + at[:, None] * R + r[None, :], acc, mask=mixed)
        tl.store(logsum + at, high + tl.log2(total), mask=row_mask)


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
    splits: int | None = None,
    config: Mapping[str, int] | None = None,
) -> Tensor:
    """Launch the kernels; arguments and result as in the package's docstring.

    Args:
        lengths, splits: as in `harness.kernels.decode_attention.kernel`.
        config: tile sizes and launch options; None takes the tuned table or `default`.

    Raises:
        ValueError: tensors that do not fit together, with their shapes.
        UnfitError: a device or dtype that these kernels cannot run on.
    """
    tensors = {"q": q, "k": latent, "v": latent, "table": table, "lens": lens}
    optional = {"cu_seqlens": cu_seqlens, "mask": mask}
    tensors |= {name: each for name, each in optional.items() if each is not None}
    check("mla_decode", tensors, scale, causal_block, most=2 * MAX_RANK)
    (T, N, E), B, block = q.shape, lens.shape[0], latent.shape[2]
    max_rows = 1
    if cu_seqlens is not None:
        max_rows = min(MAX_ROWS, T) if lengths is None else lengths.max_rows
    if max_rows > MAX_ROWS or (cu_seqlens is None and T != B):
        raise ValueError(
            f"mla_decode takes 1 to {MAX_ROWS} rows a sequence, one each without cu_seqlens; "
            f"got {T} rows of {B} sequences, {max_rows} of one at most"
        )
    if latent.shape[1] != 1 or not 0 < rank < E or rank > MAX_RANK:
        raise ValueError(
            f"mla_decode takes latents [P, 1, block, E] and a rank below E, at most {MAX_RANK}; "
            f"got {tuple(latent.shape)} and rank {rank}"
        )
    device = target(q.device)
    if config is None:
        shape = {"rank": rank, "entry": E, "N": N, "draft": max_rows - 1}
        dtype = str(q.dtype).removeprefix("torch.")
        config = tuned("mla_decode", device.arch, dtype, bucket(shape))
    tile = dict(config or default(device.arch, q.dtype))
    tiles = -(-max_rows * N // BLOCK_M)
    least, wanted = least_part(device.arch), 2**30
    if splits is None:
        longest = table.shape[1] * block if lengths is None else lengths.max_len
        total = B * longest if lengths is None else lengths.total_len
        splits, wanted = plan(tiles, longest, total, device.units, least, exact=lengths is not None)
    else:
        least = 1

    out = q.new_empty(T, N, rank)
    direct = splits == 1
    # Nothing is written to these when there is one split; `out` stands in for them.
    partial = logsum = out
    if not direct:
        partial = torch.empty((T, N, splits, rank), dtype=torch.float32, device=q.device)
        logsum = torch.empty((T, N, splits), dtype=torch.float32, device=q.device)
    BLOCK_R = max(16, triton.next_power_of_2(rank))
    with torch.cuda.device_of(q):
        _attend[(B * tiles, splits)](
            q, latent, table, lens, cu_seqlens, mask, out, partial, logsum, scale, q.stride(0),
            q.stride(1), latent.stride(0), latent.stride(2), table.stride(0),
            0 if mask is None else mask.stride(0), out.stride(0), out.stride(1), B, block,
            causal_block, tiles, splits, wanted, least,
            N=N, R=rank, E=E, PAGE=block if block < tile["BLOCK_S"] else 0, DIRECT=direct,
            BLOCK_M=BLOCK_M, BLOCK_R=BLOCK_R,
            BLOCK_P=max(16, triton.next_power_of_2(E - rank)), **tile,
        )  # fmt: skip
        if not direct:
            _merge[(T * N,)](
                partial, logsum, out, out.stride(0), out.stride(1), splits,
                N=N, H=rank, BLOCK_H=BLOCK_R, BLOCK_P=16, num_warps=4,
            )  # fmt: skip
    return out


def default(arch: str, dtype: torch.dtype) -> dict[str, int]:
    """Tile sizes and launch options where nothing was tuned.

    A tile of 32 entries at DeepSeek's size is 36 KiB in 16 bits, so that two of them fit the
    99 KiB of consumer devices; gfx942 has 64 KiB. On sm_80 such tiles exceeded the registers of
    four warps by 8 bytes a thread, and of eight by 24: half as many entries there.
    """
    if arch == INTERPRETED:
        # Small tests meet several tiles.
        return {"BLOCK_S": 16, "num_warps": 4, "num_stages": 1}
    if dtype == torch.float32:
        return {"BLOCK_S": 16, "num_warps": 8, "num_stages": 1}
    stages = 1 if arch.startswith("gfx") else 2
    return {"BLOCK_S": 16 if arch == "sm_80" else 32, "num_warps": 4, "num_stages": stages}


def candidates(_shape: Mapping[str, int], dtype: str, arch: str) -> list[dict[str, int]]:
    """What tuning tries, the default first."""
    first = default(arch, getattr(torch, dtype))
    tried = [
        {"BLOCK_S": S, "num_warps": warps, "num_stages": stages}
        for S in (16, 32, 64)
        for warps in (4, 8)
        for stages in (1, 2, 3)
    ]
    return [first, *(each for each in tried if each != first and dtype != "float32")]
