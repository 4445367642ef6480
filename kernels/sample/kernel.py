"""Sampling in Triton: a program a row, no sorting, and nothing in memory but the logits.

The k-th largest logit, and the one at which a share p of the weight is reached, are found digit by
digit: numbers of the same order as the logits' bits make a pass over the row tell how many, or how
much weight, lie at and above each of 2 ** DIGIT pivots. Among equals a count in the vocabulary's
order says which stay. Reads RV logits once for the largest and once for the draw, and where they
are cut off 32 / DIGIT + 1 times more for top-k and for top-p, from the level-2 cache as a rule: a
row of 128,256 logits is 257 kB.
"""

from collections.abc import Iterator, Mapping

import torch
import triton
import triton.language as tl
from torch import Tensor

from harness.kernels.sample import bucket
from harness.launch import INTERPRETED, Device, described, require, target, tuned

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)
# Below the key of every number there is.
LOWEST: tl.constexpr = tl.constexpr(-(2**31))
# Colder than this no two logits differ by as little as would still be drawn.
COLDEST: tl.constexpr = tl.constexpr(1e-30)


@triton.jit
def _tile(logits, start, V, BLOCK_V: tl.constexpr):
    """Tokens of a tile, their logits, and keys: whole numbers of the same order, LOWEST past V."""
    v = start + tl.arange(0, BLOCK_V)
    # Zero has two signs, and the sum with zero one.
    x = tl.load(logits + v, mask=v < V, other=float("-inf")).to(tl.float32) + 0.0
    bits = x.to(tl.int32, bitcast=True)
    key = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return v, x, tl.where(v < V, key, LOWEST)


@triton.jit
def _weight(key, high, factor):
    """The weight of the number with that key."""
    bits = tl.where(key < 0, key ^ 0x7FFFFFFF, key)
    return tl.exp2((bits.to(tl.float32, bitcast=True) - high) * factor)


@triton.jit
def _above(logits, V, cut, high, factor, BLOCK_V: tl.constexpr):
    """How many logits have keys above `cut`, and their weight."""
    count = tl.full([], 0, tl.int32)
    weight = tl.full([], 0.0, tl.float32)
    for start in tl.range(0, V, BLOCK_V):
        _, x, key = _tile(logits, start, V, BLOCK_V)
        count += tl.sum((key > cut).to(tl.int32), 0)
        weight += tl.sum(tl.where(key > cut, tl.exp2((x - high) * factor), 0.0), 0)
    return count, weight


@triton.jit
def _search(
    logits, V, wanted, cut, spare, high, factor,
    COUNTED: tl.constexpr, BLOCK_V: tl.constexpr, DIGIT: tl.constexpr,
):  # fmt: skip
    """The largest key at and above which there is as much as `wanted`: LOWEST where there is not.

    COUNTED: logits are counted, exactly up to 2 ** 24. Else their weights are summed of those above
    `cut`, and `spare` is what some at `cut` itself have.
    """
    base = tl.full([], LOWEST, tl.int32)
    for done in tl.range(0, 32, DIGIT):
        shift = 32 - DIGIT - done
        pivots = base + (tl.arange(0, 1 << DIGIT) << shift)
        reached = tl.where(pivots <= cut, spare, 0.0)
        for start in tl.range(0, V, BLOCK_V):
            _, x, key = _tile(logits, start, V, BLOCK_V)
            if COUNTED:
                weight = tl.full([BLOCK_V], 1.0, tl.float32)
            else:
                weight = tl.where(key > cut, tl.exp2((x - high) * factor), 0.0)
            at_least = key[:, None] >= pivots[None, :]
            reached += tl.sum(tl.where(at_least, weight[:, None], 0.0), 0)
        enough = (reached >= wanted) & (reached > 0)
        base += tl.maximum(tl.sum(enough.to(tl.int32), 0) - 1, 0) << shift
    return base


@triton.jit
def _drawn(
    logits, V, high, temperature, top_k, top_p, number,
    BLOCK_V: tl.constexpr, DIGIT: tl.constexpr,
):  # fmt: skip
    """A token of one row with a temperature."""
    factor = (1.0 / tl.maximum(temperature, COLDEST) * LOG2_E).to(tl.float32)
    # Those above `cut` stay, and the first `ties` of those at it.
    cut = tl.full([], LOWEST, tl.int32)
    ties = tl.full([], 0, tl.int32)
    if top_k is not None:
        k = tl.load(top_k).to(tl.int32)
        if (k > 0) & (k < V):
            cut = _search(logits, V, k, cut, 0.0, high, factor, True, BLOCK_V, DIGIT)
            count, _ = _above(logits, V, cut, high, factor, BLOCK_V)
            ties = k - count
    _, weight = _above(logits, V, cut, high, factor, BLOCK_V)
    spare = tl.where(ties > 0, ties * _weight(cut, high, factor), 0.0)
    if top_p is not None:
        p = tl.load(top_p)
        if p < 1:
            wanted = (p * (weight + spare)).to(tl.float32)
            low = _search(logits, V, wanted, cut, spare, high, factor, False, BLOCK_V, DIGIT)
            # Where rounding leaves the whole below what is wanted, all stay.
            if low > cut:
                cut = low
                ties = tl.full([], V, tl.int32)
                _, weight = _above(logits, V, cut, high, factor, BLOCK_V)
            if cut > LOWEST:
                each = _weight(cut, high, factor)
                needed = tl.ceil((wanted - weight) / each).to(tl.int32)
                ties = tl.minimum(tl.maximum(needed, 1), ties)
                spare = ties * each

    # Sums of many tiles are kept in float64; within a tile float32 is enough.
    whole = number * (weight + spare).to(tl.float64)
    before = tl.full([], 0.0, tl.float64)
    met = tl.full([], 0, tl.int32)
    token = tl.full([], 0, tl.int32) + V
    last = tl.full([], 0, tl.int32)
    for start in tl.range(0, V, BLOCK_V):
        v, x, key = _tile(logits, start, V, BLOCK_V)
        tied = (key == cut).to(tl.int32)
        kept = (key > cut) | ((tied > 0) & (met + tl.cumsum(tied, 0) <= ties))
        weights = tl.where(kept, tl.exp2((x - high) * factor), 0.0)
        past = (tl.cumsum(weights, 0) > (whole - before).to(tl.float32)) & (weights > 0)
        token = tl.minimum(token, tl.min(tl.where(past, v, V), 0))
        # Rounding may leave the whole beyond the last sum.
        last = tl.maximum(last, tl.max(tl.where(weights > 0, v, 0), 0))
        before += tl.sum(weights, 0).to(tl.float64)
        met += tl.sum(tied, 0)
    return tl.where(token < V, token, last)


@triton.jit
def _sample(
    logits, temperatures, top_k, top_p, numbers, out, logits_r,
    V: tl.constexpr, BLOCK_V: tl.constexpr, DIGIT: tl.constexpr,
):  # fmt: skip
    """One row. Grid: (R,). Arguments that are None are compiled out."""
    r = tl.program_id(0).to(tl.int64)
    logits += r * logits_r
    high = tl.full([], float("-inf"), tl.float32)
    token = tl.full([], 0, tl.int32)
    for start in tl.range(0, V, BLOCK_V):
        _, x, _ = _tile(logits, start, V, BLOCK_V)
        # Of equals the first: of a later tile only what is larger.
        token = tl.where(tl.max(x, 0) > high, start + tl.argmax(x, 0), token)
        high = tl.maximum(high, tl.max(x, 0))
    if temperatures is not None:
        temperature = tl.load(temperatures + r)
        if temperature > 0:
            token = _drawn(
                logits, V, high, temperature, None if top_k is None else top_k + r,
                None if top_p is None else top_p + r, tl.load(numbers + r), BLOCK_V, DIGIT,
            )  # fmt: skip
    tl.store(out + r, token.to(tl.int64))


def sample(
    logits: Tensor,
    temperatures: Tensor | None,
    top_k: Tensor | None,
    top_p: Tensor | None,
    numbers: Tensor | None,
    *,
    config: Mapping[str, int] | None = None,
) -> Tensor:
    """Launch the kernel; arguments and result as in the package's docstring.

    Raises:
        ValueError: tensors that do not fit together, with their shapes.
        UnfitError: a device or dtype that the kernel cannot run on.
    """
    require("sample", logits, DTYPES)
    _check(logits, temperatures, top_k, top_p, numbers)
    R, V = logits.shape
    if config is None:
        dtype = str(logits.dtype).removeprefix("torch.")
        device = target(logits.device)
        config = tuned("sample", device.arch, dtype, bucket({"V": V})) or default(
            device, logits.element_size()
        )
    out = torch.empty(R, dtype=torch.int64, device=logits.device)
    if R:
        with torch.cuda.device_of(logits):
            _sample[(R,)](
                logits, temperatures, top_k, top_p, numbers, out, logits.stride(0), V=V, **config
            )
    return out


def default(device: Device, element_bytes: int) -> dict[str, int]:
    """Two 128-bit loads a thread; more, or more threads, spilled on sm_80 or sm_100."""
    if device.arch == INTERPRETED:
        # Small tests meet several tiles.
        return {"BLOCK_V": 128, "DIGIT": 4, "num_warps": 4}
    return {"BLOCK_V": 8192 // element_bytes, "DIGIT": 2, "num_warps": device.warps(256)}


def candidates(shape: Mapping[str, int], dtype: str, arch: str) -> Iterator[Mapping[str, int]]:
    """The default, then other tiles; see `harness.kernel.Tuning`."""
    del shape
    device = described(arch)
    first = default(device, torch.empty(0, dtype=getattr(torch, dtype)).element_size())
    yield first
    for block in (2048, 4096, 8192):
        for threads in (256, 512, 1024):
            for digit in (1, 2, 4):
                config = {"BLOCK_V": block, "DIGIT": digit, "num_warps": device.warps(threads)}
                # More numbers a thread than it has registers for would spill.
                if config != first and block / threads >= 8 and (block << digit) / threads <= 64:
                    yield config


def _check(
    logits: Tensor,
    temperatures: Tensor | None,
    top_k: Tensor | None,
    top_p: Tensor | None,
    numbers: Tensor | None,
) -> None:
    """Everything the kernel takes for granted."""
    rows = {"temperatures": temperatures, "top_k": top_k, "top_p": top_p, "numbers": numbers}
    given = {"logits": logits} | {name: t for name, t in rows.items() if t is not None}

    def refuse(what: str) -> ValueError:
        shapes = ", ".join(f"{n} {tuple(t.shape)} {t.dtype} {t.stride()}" for n, t in given.items())
        return ValueError(f"sample: {what}; got {shapes}")

    if logits.dim() != 2 or not logits.shape[1] or (logits.stride(1) != 1 < logits.shape[1]):
        raise refuse("logits must be [R, V] with V of at least 1, and stride 1 within rows")
    if (temperatures is None) != (numbers is None):
        raise refuse("temperatures and numbers are given together or not at all")
    if any(
        t.shape != logits.shape[:1] or not t.is_contiguous() for n, t in given.items() if n in rows
    ):
        raise refuse("temperatures, top_k, top_p and numbers must be [R], in one piece")
    kinds = dict.fromkeys(rows, torch.float64) | {"top_k": torch.int64}
    if any(given[name].dtype != kinds[name] for name in rows if name in given):
        raise refuse("temperatures, top_p and numbers must be float64, and top_k int64")
    if len({t.device for t in given.values()}) > 1:
        raise refuse("all tensors must be on one device")
