"""The decoder language model, slow and clear: what architecture references share.

Independent of the engine: no cache, no batch, no fusing, one sequence, loops where they are
clearer, and the dtype is an argument. With float64 it is the exact side of every gate.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from harness.shape import ModelShape

# Rows of attention at once: all of a long prompt would be gigabytes of scores.
_ROWS = 128

# linear(name, x [T, in]) -> [T, out]: applies the matrix of that name.
LinearFunction = Callable[[str, Tensor], Tensor]
# mixer(layer, x [T, D] normed) -> [T, D]
MixerFunction = Callable[[int, Tensor], Tensor]


def decoder_lm(
    weights: dict[str, Tensor],
    shape: ModelShape,
    tokens: Tensor,
    dtype: torch.dtype,
    linear: LinearFunction,
    mixer: MixerFunction,
) -> Tensor:
    """Logits [T, V] of tokens [T]: residual stream, pre-norm, SwiGLU (arXiv:2302.13971); with
    scaled embeddings, GeGLU, norms on both sides and capped logits (arXiv:2408.00118, 2)."""

    def norm(name: str, x: Tensor) -> Tensor:
        return rms_norm(x, weights[name], shape.eps)

    def added(name: str, x: Tensor) -> Tensor:
        return norm(name, x) if shape.post_norms else x

    x = weights["embed"].to(dtype)[tokens] * shape.embed_scale  # [T, D]
    for layer in range(shape.layers):
        x = x + added(f"{layer}.norm1_post", mixer(layer, norm(f"{layer}.norm1", x)))
        if shape.ff:
            h = norm(f"{layer}.norm2", x)
            gate, up = linear(f"{layer}.gate", h), linear(f"{layer}.up", h)  # [T, F]
            down = linear(f"{layer}.down", activated(gate, shape) * up)
            x = x + added(f"{layer}.norm2_post", down)
    return capped(linear("head", norm("norm", x)), shape.logit_cap)


def activated(gate: Tensor, shape: ModelShape) -> Tensor:
    """SiLU (arXiv:1702.03118), or the tanh form of GELU (arXiv:1606.08415, 2)."""
    if shape.activation == "silu":
        return gate * torch.sigmoid(gate)
    inner = math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)
    return gate * (1 + torch.tanh(inner)) / 2


def capped(x: Tensor, cap: float) -> Tensor:
    """x, or c tanh(x / c) with a cap c above 0."""
    return cap * torch.tanh(x / cap) if cap else x


def attention_lm(
    weights: dict[str, Tensor],
    shape: ModelShape,
    tokens: Tensor,
    dtype: torch.dtype,
    linear: LinearFunction,
) -> Tensor:
    """Logits [T, V] where layers are softmax attention: what grouped queries, shared layers and
    windows come to, alone or together.

    Query head n reads key/value head n // (N / K) (arXiv:2305.13245, 2.2), of the layer that owns
    its span (arXiv:2405.12981, 2), of the last W tokens, itself included (arXiv:2310.06825, 2).
    """
    mixer = attention_mixer(shape, len(tokens), linear, weights)
    return decoder_lm(weights, shape, tokens, dtype, linear, mixer)


def attention_mixer(
    shape: ModelShape, T: int, linear: LinearFunction, weights: dict[str, Tensor]
) -> MixerFunction:
    """The mixer of such layers over T tokens, x [T, D] -> [T, D]."""
    N, K, H = shape.heads, shape.kv_heads, shape.head_dim
    scale = shape.score_scale or 1 / math.sqrt(H)
    positions = torch.arange(T)
    owners = {layer: span.start for span in shape.spans() for layer in span}
    shared: dict[int, tuple[Tensor, Tensor]] = {}

    def turned(layer: int, name: str, heads: Tensor) -> Tensor:
        if shape.qk_norm:
            heads = rms_norm(heads, weights[f"{layer}.{name}_norm"], shape.eps)
        return rope(heads, positions, shape, layer)

    def attention(layer: int, x: Tensor) -> Tensor:
        q = turned(layer, "q", linear(f"{layer}.q", x).view(T, N, H))
        if owners[layer] == layer:
            key = turned(layer, "k", linear(f"{layer}.k", x).view(T, K, H))
            shared[layer] = key, linear(f"{layer}.v", x).view(T, K, H)
        key, value = shared[owners[layer]]
        window = shape.window(layer) or T
        out = torch.empty_like(q)
        for first in range(0, T, _ROWS):
            rows = positions[first : first + _ROWS]
            # No row of these sees further left than the first of them, or right of the last.
            seen = positions[max(0, first - window + 1) : first + _ROWS]
            distance = rows[:, None] - seen[None]  # a row looks back so far at a column
            hidden = (distance < 0) | (distance >= window)
            for n in range(N):
                group = n // (N // K)
                scores = capped(q[rows, n] @ key[seen, group].T * scale, shape.score_cap)
                weighed = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1)
                out[rows, n] = weighed @ value[seen, group]
        return linear(f"{layer}.o", out.view(T, N * H))

    return attention


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension (arXiv:1910.07467)."""
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight.to(x.dtype)


def rope(x: Tensor, positions: Tensor, shape: ModelShape, layer: int) -> Tensor:
    """Rotate x [T, heads, dim] by its positions [T]: dimensions d and d + dim/2 are one complex
    number, turned by position * frequency(d) (arXiv:2104.09864; halves paired as HuggingFace does).
    """
    half = x.shape[-1] // 2
    angles = torch.empty(len(positions), half, dtype=torch.float64)
    for d in range(half):
        angles[:, d] = positions.double() * _frequency(d, half, shape, layer)
    cos, sin = angles.cos()[:, None].to(x.dtype), angles.sin()[:, None].to(x.dtype)
    real, imaginary = x[..., :half], x[..., half:]
    return torch.cat([real * cos - imaginary * sin, imaginary * cos + real * sin], -1)


def _frequency(d: int, half: int, shape: ModelShape, layer: int) -> float:
    """Angle a position of pair d; Llama 3 divides slow ones by a factor and blends in between."""
    own = shape.window_theta != 0 and shape.window(layer) is not None
    theta = shape.window_theta if own else shape.theta
    if theta == 0:
        return 0.0
    plain = math.pow(theta, -d / half)
    scaling = None if own else shape.rope_scaling
    if scaling is None:
        return plain
    turns = scaling.original_max_len * plain / (2 * math.pi)  # full turns in the trained context
    if turns < scaling.low_freq_factor:
        return plain / scaling.factor
    if turns > scaling.high_freq_factor:
        return plain
    share = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    return (1 - share) * plain / scaling.factor + share * plain
