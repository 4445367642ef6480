"""The rotation and the write under `torch.compile` beside ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor

from harness.errors import UnfitError
from harness.kernel import Peer, compiled
from harness.kernels.rope_write.inputs import Inputs


def make(inputs: Inputs) -> dict[str, Callable[[], Peer]]:
    """Every peer by name."""
    return {"compiled": partial(_compiled, inputs)}


def _compiled(inputs: Inputs) -> Peer:
    if inputs.pages is None or bool((inputs.pages < 0).any()):
        raise UnfitError("rows without a place: the compiled formula would write them somewhere")
    return compiled(_formula, inputs)


def _formula(
    qkv: Tensor,
    cos: Tensor,
    sin: Tensor,
    k_pool: Tensor,
    v_pool: Tensor,
    pages: Tensor,
    offsets: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    (_, heads, H), K = qkv.shape, k_pool.shape[1]
    turning = qkv[:, : heads - K].to(cos.dtype)
    turned = turning * cos[:, None] + turning.roll(H // 2, -1) * sin[:, None]
    turned = turned.to(qkv.dtype)
    N = heads - 2 * K
    k_pool.transpose(1, 2)[pages, offsets] = turned[:, N:]
    v_pool.transpose(1, 2)[pages, offsets] = qkv[:, heads - K :]
    return turned[:, :N], k_pool, v_pool
