"""What the attention kernels take for granted of their arguments."""

from collections.abc import Mapping

import torch
from torch import Tensor

from harness.errors import UnfitError
from harness.launch import require

MAX_HEAD_DIM = 256
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
QUANTISED = (torch.int8, torch.float8_e4m3fn)


def check(
    kernel: str,
    tensors: Mapping[str, Tensor],
    scale: float,
    causal_block: int,
    most: int = MAX_HEAD_DIM,
) -> None:
    """Everything the attention kernels take for granted; optional tensors are left out, and a head
    has at most so many numbers."""
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
    if q.shape[2] > most:
        raise refuse(f"the head dimension must be at most {most}")
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
