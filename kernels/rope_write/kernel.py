"""rope_write in Triton: a tile of one token's heads, each rotated, copied, written where it goes.

Moves T(N + 2K)H numbers in and out, and the table's row once a tile. Sources: arXiv:2104.09864;
arXiv:2309.06180 for pages.
"""

from collections.abc import Iterator, Mapping

import torch
import triton
import triton.language as tl
from torch import Tensor

from harness.kernels.rope_write import bucket
from harness.launch import Device, described, require, target, tuned

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
# Numbers of a tile: 16 a thread, 8 of each half of a head.
TILE, THREADS = 2048, 128


@triton.jit
def _rope_write(
    qkv, cos, sin, out, k_pool, v_pool, pages, offsets,
    qkv_t, qkv_n, table_t, k_p, k_k, k_s, v_p, v_k, v_s,
    N: tl.constexpr, K: tl.constexpr, H: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    """BLOCK_N heads of one token: queries to `out`, keys and values to the pools.

    Grid: (T, heads / BLOCK_N). K is 0 where there are no pools; BLOCK_H covers half a head.
    """
    HALF: tl.constexpr = H // 2
    t = tl.program_id(0).to(tl.int64)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    h = tl.arange(0, BLOCK_H)
    h_mask = h < HALF
    mask = (n < N + 2 * K)[:, None] & h_mask[None, :]
    at = qkv + t * qkv_t + n[:, None].to(tl.int64) * qkv_n + h[None, :]
    first, second = tl.load(at, mask=mask, other=0.0), tl.load(at + HALF, mask=mask, other=0.0)
    row = t * table_t + h
    c = tl.load(cos + row, mask=h_mask, other=0.0)[None, :]
    s = tl.load(sin + row + HALF, mask=h_mask, other=0.0)[None, :]
    low, high = first.to(tl.float32), second.to(tl.float32)
    kind = out.dtype.element_ty
    new_first, new_second = (low * c - high * s).to(kind), (high * c + low * s).to(kind)

    to = out + (t * N + n[:, None]) * H + h[None, :]
    q_mask = (n < N)[:, None] & h_mask[None, :]
    tl.store(to, new_first, mask=q_mask)
    tl.store(to + HALF, new_second, mask=q_mask)
    if K > 0:
        page, offset = tl.load(pages + t), tl.load(offsets + t)
        k = n - N
        k_mask = (page >= 0) & ((k >= 0) & (k < K))[:, None] & h_mask[None, :]
        to = k_pool + page * k_p + k[:, None].to(tl.int64) * k_k + offset * k_s + h[None, :]
        tl.store(to, new_first, mask=k_mask)
        tl.store(to + HALF, new_second, mask=k_mask)
        v = k - K
        v_mask = (page >= 0) & ((v >= 0) & (v < K))[:, None] & h_mask[None, :]
        to = v_pool + page * v_p + v[:, None].to(tl.int64) * v_k + offset * v_s + h[None, :]
        tl.store(to, first, mask=v_mask)
        tl.store(to + HALF, second, mask=v_mask)


def rope_write(
    qkv: Tensor,
    cos: Tensor,
    sin: Tensor,
    k_pool: Tensor | None,
    v_pool: Tensor | None,
    pages: Tensor | None,
    offsets: Tensor | None,
    *,
    config: Mapping[str, int] | None = None,
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    """Launch the kernel; arguments and result as in the package's docstring.

    Raises:
        ValueError: tensors that do not fit together, with their shapes.
        UnfitError: a device or dtype that the kernel cannot run on.
    """
    require("rope_write", qkv, DTYPES)
    _check(qkv, cos, sin, k_pool, v_pool, pages, offsets)
    T, heads, H = qkv.shape
    K = 0 if k_pool is None else k_pool.shape[1]
    N = heads - 2 * K
    if config is None:
        dtype = str(qkv.dtype).removeprefix("torch.")
        row, device = bucket({"T": T, "N": N, "K": K, "H": H}), target(qkv.device)
        config = tuned("rope_write", device.arch, dtype, row) or default(heads, H, device)
    out = torch.empty((T, N, H), dtype=qkv.dtype, device=qkv.device)
    k_strides = (0, 0, 0) if k_pool is None else k_pool.stride()[:3]
    v_strides = (0, 0, 0) if v_pool is None else v_pool.stride()[:3]
    if T:
        with torch.cuda.device_of(qkv):
            _rope_write[(T, triton.cdiv(heads, config["BLOCK_N"]))](
                qkv, cos, sin, out, k_pool, v_pool, pages, offsets,
                qkv.stride(0), qkv.stride(1), cos.stride(0), *k_strides, *v_strides,
                N=N, K=K, H=H, BLOCK_H=triton.next_power_of_2(H // 2), **config,
            )  # fmt: skip
    return out if k_pool is None or v_pool is None else (out, k_pool, v_pool)


def default(heads: int, head_dim: int, device: Device) -> dict[str, int]:
    """Heads a program: TILE numbers, or all there are."""
    most = max(1, TILE // triton.next_power_of_2(head_dim))
    rows = min(most, triton.next_power_of_2(heads))
    return {"BLOCK_N": rows, "num_warps": device.warps(THREADS)}


def candidates(shape: Mapping[str, int], dtype: str, arch: str) -> Iterator[Mapping[str, int]]:
    """The default, then other tiles; see `harness.kernel.Tuning`."""
    del dtype
    device = described(arch)
    heads = shape["N"] + 2 * shape["K"]
    first = default(heads, shape["H"], device)
    yield first
    for block in (1, 2, 4, 8, 16, 32, 64):
        for threads in (32, 64, 128, 256):
            config = {"BLOCK_N": block, "num_warps": device.warps(threads)}
            numbers = block * triton.next_power_of_2(shape["H"]) / threads
            if config != first and block < 2 * heads and 4 <= numbers <= 64:
                yield config


def _check(
    qkv: Tensor,
    cos: Tensor,
    sin: Tensor,
    k_pool: Tensor | None,
    v_pool: Tensor | None,
    pages: Tensor | None,
    offsets: Tensor | None,
) -> None:
    """Everything the kernel takes for granted."""
    given = {
        "qkv": qkv, "cos": cos, "sin": sin, "k_pool": k_pool, "v_pool": v_pool, "pages": pages,
        "offsets": offsets,
    }  # fmt: skip

    def refuse(what: str) -> ValueError:
        shapes = ", ".join(
            f"{name} {tuple(t.shape)} {t.dtype} strides {t.stride()}"
            for name, t in given.items()
            if t is not None
        )
        return ValueError(f"rope_write: {what}; got {shapes}")

    rest = (k_pool, v_pool, pages, offsets)
    if any(t is None for t in rest) and any(t is not None for t in rest):
        raise refuse("k_pool, v_pool, pages and offsets are given together or not at all")
    if qkv.dim() != 3 or qkv.shape[2] % 2:
        raise refuse("qkv must be [T, N + 2K, H] with an even H")
    T, heads, H = qkv.shape
    if not cos.shape == sin.shape == (T, H) or cos.stride() != sin.stride():
        raise refuse("cos and sin must be [T, H], with the same strides")
    if cos.dtype != torch.float32 or sin.dtype != torch.float32:
        raise refuse("cos and sin must be float32")
    present = [t for t in given.values() if t is not None]
    if len({t.device for t in present}) > 1:
        raise refuse("all tensors must be on one device")
    if any(t.stride(-1) != 1 and t.shape[-1] > 1 for t in present):
        raise refuse("the last dimension must have stride 1")
    if k_pool is None or v_pool is None or pages is None or offsets is None:
        return
    if k_pool.dim() != 4 or k_pool.shape != v_pool.shape or k_pool.shape[3] != H:
        raise refuse("k_pool and v_pool must be [P, K, block, H]")
    if heads <= 2 * k_pool.shape[1]:
        raise refuse("qkv must hold at least one query head beside the keys and values")
    if not qkv.dtype == k_pool.dtype == v_pool.dtype:
        raise refuse("qkv and the pools must have one dtype")
    if not pages.shape == offsets.shape == (T,) or not pages.dtype == offsets.dtype == torch.int64:
        raise refuse("pages and offsets must be [T] int64")
