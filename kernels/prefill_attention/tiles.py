"""What both attention kernels do with a tile: whose rows it has, what they see, the pass over keys.

Triton inlines these functions into the kernels that call them.
"""

import triton
import triton.language as tl

LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def packed_rows(tile, begin, rows, head, GROUP: tl.constexpr, BLOCK_M: tl.constexpr):
    """Rows of a tile of a sequence that begins at row `begin`: packed row m is token m // GROUP.

    Gives each one's token, row of the batch, query head, and whether it is there.
    """
    packed = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    # Packed rows past the end stand for the last one again: none of them widens a bound.
    token = tl.minimum(packed // GROUP, rows - 1)
    row = (begin + token).to(tl.int64)
    return token, row, head * GROUP + packed % GROUP, packed < rows * GROUP


@triton.jit
def visible(
    token, row, length, rows, mask, positions, causal_block, window,
    WINDOWED: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """What rows may see: keys left < s < limit, each row its own; all of them first <= s < last.

    `first` is a multiple of BLOCK_S. Among its sequence's own rows a mask decides, not these.
    """
    place = length - rows + token
    if mask is not None:
        limit = tl.full([BLOCK_M], 0, tl.int32) + length
    else:
        limit = tl.minimum((place // causal_block + 1) * causal_block, length)
    left = tl.full([BLOCK_M], -1, tl.int32)
    if WINDOWED:
        if positions is not None:
            place = tl.load(positions + row)
        left = place - window
    first = tl.maximum(tl.min(left, 0) + 1, 0) // BLOCK_S * BLOCK_S
    return left, limit, first, tl.max(limit, 0)


@triton.jit
def tanh(x):
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
def locate(table, s, start, length, block, PAGE: tl.constexpr):
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
def scan(
    acc, high, total, b_q, k, v, k_scale, v_scale, table, bias, first, last, k_s, v_s, k_p, v_p,
    scale_p, block, length, rows, left, limit, row_mask, scale, softcap,
    HIDDEN: tl.constexpr, WINDOWED: tl.constexpr, SOFTCAP: tl.constexpr, PAGE: tl.constexpr,
    H: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Attend with one tile of rows over the keys from `first` to `last`, tile by tile.

    Pointers are the sequence's and head's own; `bias` is the mask's first column for each row, or
    None. HIDDEN: some row may not see some key here, so each is asked for.
    """
    held = length - rows
    # Exponentials are to base 2, which the hardware has.
    if SOFTCAP:
        in_factor = scale / softcap
        factor = LOG2_E * 1.0
    else:
        in_factor = 1.0
        factor = scale * LOG2_E
    h = tl.arange(0, BLOCK_H)
    j = tl.arange(0, BLOCK_S)
    order = j
    if k_scale is not None:
        # Even tokens, then odd ones. Values of eight bits go through this order on their way to
        # the product: straight on, they would be copied in pieces of 64 bits instead of 128.
        order = j % (BLOCK_S // 2) * 2 + j // (BLOCK_S // 2)
    for start in tl.range(first, last, BLOCK_S):
        s = start + order
        page, within, inside = locate(table, s, start, length, block, PAGE)
        k_at = page * k_p + within * k_s
        mask = inside[:, None] & (h < H)[None, :]
        b_k = tl.load(k + k_at[:, None] + h[None, :], mask=mask, other=0.0)
        if k_scale is not None:
            v_page, v_within, v_inside = locate(table, start + j, start, length, block, PAGE)
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
            scores = softcap * tanh(scores * in_factor)
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

        # The maximum is taken before scaling, so that scaling and subtracting are one instruction.
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
