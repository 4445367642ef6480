"""How a sequence is cut into parts on the device: what kernels that are split over it share.

Triton inlines this function into the kernels that call it.
"""

import triton
import triton.language as tl


@triton.jit
def cut(
    split, first, last, lens, B, per_sequence, wanted, splits, least, window, max_rows,
    WINDOWED: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """The tokens of part `split` of those from `first` to `last`, and how many parts there are.

    How long a part is follows from all lengths: the work, at `per_sequence` programs each, is
    shared out among `wanted` programs, a part has `least` tokens at least, and a sequence `splits`
    parts at most. Where WINDOWED, a sequence of up to `max_rows` rows reads no more than those
    and its window. Parts are even and of whole tiles; the last is what is left.
    """
    longest = 0
    work = tl.full([], 0, tl.int64)
    for i in tl.range(0, B, 128):
        at = i + tl.arange(0, 128)
        spans = tl.load(lens + at, mask=at < B, other=0)
        if WINDOWED:
            spans = tl.minimum(spans, window + max_rows)
        longest = tl.maximum(longest, tl.max(spans, 0))
        work += tl.sum(spans.to(tl.int64), 0)
    share = tl.cdiv(work * per_sequence, wanted).to(tl.int32)
    span = tl.maximum(tl.maximum(share, tl.cdiv(longest, splits)), least)
    parts = tl.minimum(tl.maximum(tl.cdiv(last - first, span), 1), splits)
    each = tl.cdiv(tl.cdiv(last - first, parts), BLOCK_S) * BLOCK_S
    begin = first + split * each
    return begin, tl.minimum(begin + each, last), parts
