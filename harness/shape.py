"""Pure numbers that describe a model, its state and one forward. Imports nothing heavy.

The alphabet, used everywhere: B batch, T query tokens, S cached tokens, L layers, N query heads,
K key/value heads, H head dimension, D model width, F feed-forward width, V vocabulary.
"""

import math
from dataclasses import dataclass
from typing import Literal

DTypeName = Literal["float64", "float32", "float16", "bfloat16"]
DTYPE_BYTES: dict[str, int] = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


# The mixer of a layer that names none, "module:Class".
STANDARD_MIXER = "harness.model.attention:Attention"


@dataclass(frozen=True)
class RopeScaling:
    """Llama 3's frequency scaling for contexts longer than the training one.

    Source: Llama 3 reference implementation; `rope_type: llama3` of HuggingFace configs.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_len: int


@dataclass(frozen=True)
class ModelShape:
    """A decoder-only language model in numbers. Architecture techniques replace fields of it."""

    vocab: int  # V
    width: int  # D
    layers: int  # L
    heads: int  # N
    kv_heads: int  # K
    head_dim: int  # H
    ff: int  # F; 0: no feed-forward
    eps: float = 1e-5
    theta: float = 10000.0  # 0: positions are not encoded
    rope_scaling: RopeScaling | None = None
    tied: bool = False
    max_len: int = 2048
    # One "module:Class" a layer; empty: STANDARD_MIXER everywhere.
    mixers: tuple[str, ...] = ()
    # Tokens a layer sees, itself included, by layer; 0: all of them. Empty: all of them everywhere.
    windows: tuple[int, ...] = ()
    kv_share: int = 1  # consecutive layers that share one group of keys and values
    # What some families have beside Llama's layers; the defaults are Llama's.
    activation: Literal["silu", "gelu"] = "silu"  # of the feed-forward's gate; gelu by tanh
    embed_scale: float = 1.0  # embeddings are multiplied by it, where they enter the layers
    post_norms: bool = False  # what mixer and feed-forward add is normed too
    qk_norm: bool = False  # every head's query and key is normed before its rotation
    score_scale: float = 0.0  # scores are q k times it; 0: H^-0.5
    score_cap: float = 0.0  # scores s become c tanh(s / c); 0: they do not
    logit_cap: float = 0.0  # the same for logits
    window_theta: float = 0.0  # of layers with a window, with no scaling; 0: as all others
    # Numbers only one technique knows, by name, so that adding it changes no file here.
    extra: tuple[tuple[str, int | float | str], ...] = ()

    def window(self, layer: int) -> int | None:
        """Tokens that one of the layer sees, itself included; None: everything before it."""
        return (self.windows[layer] or None) if self.windows else None

    def rotation(self, layer: int) -> tuple[float, RopeScaling | None]:
        """Theta of a layer's rotary positions, and how they are stretched."""
        if self.window_theta and self.window(layer):
            return self.window_theta, None
        return self.theta, self.rope_scaling

    @property
    def scale(self) -> float:
        """What scores of queries and keys are multiplied by."""
        return self.score_scale or self.head_dim**-0.5

    def spans(self) -> tuple[range, ...]:
        """Layers that share one group of state, in order; the first of a span owns it.

        They are consecutive, have the same mixer and window, and are at most `kv_share`.
        """
        kinds = [
            (self.mixers[layer] if self.mixers else STANDARD_MIXER, self.window(layer))
            for layer in range(self.layers)
        ]
        found: list[range] = []
        for layer, kind in enumerate(kinds):
            last = found[-1] if found else range(0)
            if last and len(last) < self.kv_share and kinds[last.start] == kind:
                found[-1] = range(last.start, layer + 1)
            else:
                found.append(range(layer, layer + 1))
        return tuple(found)

    def number(self, name: str) -> int | float | str:
        """A technique's own number from `extra`; KeyError when no technique set it."""
        return dict(self.extra)[name]


@dataclass(frozen=True)
class TokenState:
    """State that grows by one entry a token; the cache slot stores it.

    `streams` maps a name to the shape of one entry, ("k", (K, H)). The first of `layers` writes,
    all of them read. With a `window`, entries further left are never read again.
    """

    streams: tuple[tuple[str, tuple[int, ...]], ...]
    layers: tuple[int, ...]
    window: int | None = None

    @property
    def entry_numbers(self) -> int:
        """Numbers stored for one token of one sequence, over all streams."""
        total = 0
        for _, shape in self.streams:
            size = 1
            for n in shape:
                size *= n
            total += size
        return total


@dataclass(frozen=True)
class SequenceState:
    """State of fixed size a sequence (a recurrence); the engine stores it, not the cache slot."""

    tensors: tuple[tuple[str, tuple[int, ...]], ...]
    layers: tuple[int, ...]
    wide: tuple[str, ...] = ()  # kept in float32 where the model's dtype has 16 bits

    def bytes(self, dtype: DTypeName) -> int:
        """Bytes of one sequence's state on a model of that dtype."""
        size = DTYPE_BYTES[dtype]
        return sum(
            math.prod(shape) * (max(4, size) if name in self.wide else size)
            for name, shape in self.tensors
        )


@dataclass(frozen=True)
class BatchShape:
    """One forward in numbers: B sequences of T query tokens each, S tokens held before it."""

    sequences: int  # B
    queries: int  # T, a sequence
    context: int  # S, a sequence, held before this forward
