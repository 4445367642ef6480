"""Function-preserving enlargement: a large model that computes a small trained one's distribution.

Each matrix of the source stands at the top left of a larger one, and everything else is small
noise: no block is zero, so that nothing is cheaper than the shape says. An RMSNorm over D numbers
of which d matter divides by a root that is sqrt(D / d) too small, which its weight and epsilon take
back: weight x sqrt(d / D), eps x d / D. Query head n of the source keeps its key/value head, since
the number that share one stays. Layers between the source's hold noise alone: they add next to
nothing to the residual stream.

Measured over held-out text by tests/acceptance/inflation.py, in nats a token: inflated-30m is 4e-7
from its source, inflated-300m 6e-7, inflated-800m 1e-5, and all 32 layers of inflated-8b 1.4e-5.

The idea of growing a network without changing its function is Net2Net's (arXiv:1511.05641), and
Llama's layers are grown so in arXiv:2401.02415 (new blocks that add nothing at first).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.errors import HarnessError
from harness.model.presets import Inflation
from harness.model.reference import attention_lm
from harness.shape import ModelShape

# Nats a token that an enlarged model may differ from its source. By Pinsker's inequality no
# probability, and so no acceptance rate, is then more than sqrt(KL / 2) = 0.7 % off.
MOST_DIVERGENCE = 1e-4
# Random ids: they are further from the text that the source knows, and differ three times as much.
_TOKENS = 64

Get = Callable[[str], Tensor]


class InflationError(HarnessError):
    """An enlarged model whose distribution is not its source's."""


@dataclass(frozen=True)
class Divergence:
    """KL(source || enlarged) in nats a token, over some tokens."""

    mean: float
    worst: float
    tokens: int


@dataclass(frozen=True)
class Inflated:
    """An enlarged model's tensors, and how far it is from its source."""

    tensors: dict[str, Tensor]
    divergence: Divergence


def build(
    name: str,
    inflation: Inflation,
    small: Mapping[str, Tensor],
    small_shape: ModelShape,
    sizes: Mapping[str, tuple[int, ...]],
    dtype: torch.dtype,
) -> Inflated:
    """Enlarge a model on the device where its tensors are, and hold it to its source.

    Args:
        name: what the enlarged model is called, for a message.
        inflation: the recipe.
        small: the source's tensors in float32.
        small_shape: its shape.
        sizes: shapes of the enlarged model's tensors, by name.
        dtype: of the enlarged tensors.

    Raises:
        InflationError: the divergence is above `MOST_DIVERGENCE`.
    """
    get = enlarger(inflation, small, small_shape, sizes)
    tensors = {name: get(name).to(dtype) for name in sizes}
    large_shape = inflation.shape(name, small_shape)
    device = next(iter(small.values())).device
    ids = torch.randint(
        small_shape.vocab, (_TOKENS,), generator=_seeded("ids", torch.device("cpu"))
    )
    found = divergence(
        # Rounding to the dtype is no part of the enlargement: the source has it too.
        logits(small_shape, lambda name: small[name].to(dtype), ids.to(device)),
        logits(large_shape, tensors.__getitem__, ids.to(device)),
    )
    if not found.mean <= MOST_DIVERGENCE:
        raise InflationError(
            f"'{name}' is {found.mean:.2g} nats a token from {inflation.source}, more than "
            f"{MOST_DIVERGENCE:g}: its distribution is not its source's"
        )
    return Inflated(tensors, found)


def enlarger(
    inflation: Inflation,
    small: Mapping[str, Tensor],
    small_shape: ModelShape,
    sizes: Mapping[str, tuple[int, ...]],
) -> Get:
    """A function from a name to the enlarged tensor, float32: each is drawn by its own name, so
    that a model too large for the memory at hand can be looked at tensor by tensor."""
    places = inflation.places(small_shape)
    shrink = math.sqrt(small_shape.width / inflation.width)

    def get(name: str) -> Tensor:
        device = next(iter(small.values())).device
        tensor = torch.randn(sizes[name], generator=_seeded(name, device), device=device)
        tensor *= inflation.noise
        layer, _, part = name.rpartition(".")
        source = name if not layer else f"{places.get(int(layer))}.{part}"
        if source in small:
            block = small[source]
            corner = tuple(slice(0, size) for size in block.shape)
            tensor[corner] = block * shrink if block.ndim == 1 else block
        return tensor

    return get


def logits(shape: ModelShape, get: Get, tokens: Tensor) -> Tensor:
    """Logits [T, V] of tokens [T] in float32, with one tensor at a time brought there."""

    class _Weights(dict[str, Tensor]):
        def __missing__(self, name: str) -> Tensor:
            return get(name).float()

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ get("embed" if name == "head" and shape.tied else name).float().T

    with torch.inference_mode(), torch.device(tokens.device):
        return attention_lm(_Weights(), shape, tokens, torch.float32, linear)


def divergence(source: Tensor, enlarged: Tensor) -> Divergence:
    """KL of two models' distributions from their logits, [T, V] each."""
    p, q = source.double().log_softmax(-1), enlarged.double().log_softmax(-1)
    by_token = (p.exp() * (p - q)).sum(-1)
    return Divergence(by_token.mean().item(), by_token.max().item(), len(by_token))


def _seeded(name: str, device: torch.device) -> torch.Generator:
    return torch.Generator(device=device).manual_seed(zlib.crc32(name.encode()))
