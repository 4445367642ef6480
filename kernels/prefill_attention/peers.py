"""PyTorch's own attention beside ours: by backend, and `flex_attention` compiled.

They take keys and values of one length side by side, [B, K, S, H]: pages are joined beforehand,
which is not timed, so that a paged kernel of ours is held to contiguous ones of theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from harness.errors import UnfitError
from harness.kernel import Peer
from harness.kernels.prefill_attention.inputs import Inputs
from harness.kernels.prefill_attention.lengths import Lengths

_BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}


class _Dense(NamedTuple):
    """The same attention as a plain batch of B sequences with T rows and S keys each."""

    q: Tensor  # [B, N, T, H], token-major in memory, as a projection leaves it
    k: Tensor  # [B, K, S, H]
    v: Tensor  # [B, K, S, H]
    scale: float
    causal: bool  # the last row sees the last key
    window: int
    softcap: float


def make(inputs: Inputs) -> dict[str, Callable[[], Peer]]:
    """Every peer by name; UnfitError for what none of them computes."""
    dense = _dense(inputs)
    found: dict[str, Callable[[], Peer]] = {
        name: partial(_by_backend, dense, name) for name in _BACKENDS
    }
    return found | {"flex": partial(_flex, dense)}


def _dense(inputs: Inputs) -> _Dense:
    known = Lengths.read(inputs.cu_seqlens, inputs.lens)
    B, T, S = len(known.lens), known.max_rows, known.max_len
    if set(known.rows) != {T} or set(known.lens) != {S}:
        raise UnfitError("sequences of different lengths: torch's attention would compute padding")
    if inputs.k_scale is not None:
        raise UnfitError("eight-bit keys and values: torch's attention takes none")
    if inputs.mask is not None:
        raise UnfitError("a draft tree's mask: torch's attention would need it over all keys")
    if inputs.causal_block != 1 and (inputs.causal_block < S or inputs.window):
        raise UnfitError("rows that see whole blocks: torch's attention has no such mask")
    N, H = inputs.q.shape[1:]
    q = inputs.q.contiguous().view(B, T, N, H).transpose(1, 2)
    causal = inputs.causal_block == 1 and T > 1
    k, v = (_joined(pool, inputs.table, S) for pool in (inputs.k, inputs.v))
    return _Dense(q, k, v, inputs.scale, causal, inputs.window, inputs.softcap)


def _joined(pool: Tensor, table: Tensor, S: int) -> Tensor:
    """The first S entries of every sequence, [B, K, S, H], dense."""
    pages = pool[table.long()]  # [B, pages, K, block, H]
    return pages.transpose(1, 2).flatten(2, 3)[:, :, :S].contiguous()


def _rows(out: Tensor) -> Tensor:
    """[B, N, T, H] as the kernel gives it, [B * T, N, H]."""
    return out.transpose(1, 2).flatten(0, 1)


def _by_backend(dense: _Dense, name: str) -> Peer:
    if dense.window or dense.softcap:
        raise UnfitError("scaled_dot_product_attention has no window and no soft cap")
    (q, k, v), (B, N, T, H) = dense[:3], dense.q.shape
    K, S = k.shape[1:3]
    restore = _rows
    if name == "efficient" and T == 1 and N != K:
        # It knows no groups; one row's query heads of a group are as good as rows.
        q = q.reshape(B, K, N // K, H)
        restore = partial(torch.reshape, shape=(B, N, H))
    grouped = q.shape[1] != K
    lower = causal_lower_right(T, S) if dense.causal and T != S else None

    def call() -> Tensor:
        with sdpa_kernel(_BACKENDS[name]):
            return scaled_dot_product_attention(
                q, k, v, attn_mask=lower, is_causal=dense.causal and lower is None,
                scale=dense.scale, enable_gqa=grouped,
            )  # fmt: skip

    return Peer(call, restore)


def _flex(dense: _Dense) -> Peer:
    # Imports the compiler, which takes seconds.
    from torch.nn.attention.flex_attention import create_block_mask

    (q, k, v), T, S = dense[:3], dense.q.shape[2], dense.k.shape[2]
    window, softcap, held = dense.window, dense.softcap, S - T

    def visible(b: Tensor, h: Tensor, row: Tensor, key: Tensor) -> Tensor:
        del b, h
        seen = key <= row + held
        return seen & (row + held - key < window) if window else seen

    def capped(score: Tensor, b: Tensor, h: Tensor, row: Tensor, key: Tensor) -> Tensor:
        del b, h, row, key
        return softcap * torch.tanh(score / softcap)

    mask = None
    if dense.causal or window:
        mask = create_block_mask(visible, None, None, T, S, device=str(q.device))
    compiled = _compiled_flex()

    def call() -> Any:
        return compiled(
            q, k, v, score_mod=capped if softcap else None, block_mask=mask, scale=dense.scale,
            enable_gqa=q.shape[1] != k.shape[1],
        )  # fmt: skip

    return Peer(call, _rows)


@cache
def _compiled_flex() -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=False)
