"""Shapes by name: published ones and `tiny`, with random weights; enlarged ones, with trained."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace

from harness.errors import UsageError
from harness.shape import ModelShape, RopeScaling

# Llama 3.1 and 3.2: factor differs, the rest is shared.
_LLAMA_32_ROPE = RopeScaling(
    factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_len=8192
)

PRESETS: dict[str, ModelShape] = {
    # Small and odd on purpose (no two sizes equal), for tests and the self-test.
    "tiny": ModelShape(
        vocab=101, width=48, layers=3, heads=4, kv_heads=4, head_dim=16, ff=112, max_len=4096
    ),
    # The 42M model of github.com/karpathy/llama2.c, whose README has the shape: what a processor
    # gets through in seconds, with weights that leave its caches.
    "stories-42m": ModelShape(
        vocab=32000,
        width=512,
        layers=8,
        heads=8,
        kv_heads=8,
        head_dim=64,
        ff=1376,
        eps=1e-5,
        theta=10000.0,
        tied=True,
        max_len=1024,
    ),
    # The zoo's small shape with six layers and room for long contexts, for a CPU.
    "long": ModelShape(
        vocab=1024, width=256, layers=6, heads=8, kv_heads=8, head_dim=32, ff=768, max_len=131072
    ),
    # arXiv:2307.09288, Table 1 and the released config.
    "llama-2-13b": ModelShape(
        vocab=32000,
        width=5120,
        layers=40,
        heads=40,
        kv_heads=40,
        head_dim=128,
        ff=13824,
        eps=1e-5,
        theta=10000.0,
        max_len=4096,
    ),
    # arXiv:2407.21783, Table 3 and the released config.
    "llama-3-8b": ModelShape(
        vocab=128256,
        width=4096,
        layers=32,
        heads=32,
        kv_heads=8,
        head_dim=128,
        ff=14336,
        eps=1e-5,
        theta=500000.0,
        # Longer than the released 8,192, so that a prompt of that length can be continued.
        max_len=16384,
    ),
    # The released config of Llama 3.2 1B.
    "llama-3.2-1b": ModelShape(
        vocab=128256,
        width=2048,
        layers=16,
        heads=32,
        kv_heads=8,
        head_dim=64,
        ff=8192,
        eps=1e-5,
        theta=500000.0,
        rope_scaling=_LLAMA_32_ROPE,
        tied=True,
        max_len=131072,
    ),
}


@dataclass(frozen=True)
class Inflation:
    """The recipe of an enlarged model: the trained one that it computes, and the shape it costs.

    Head dimension, query heads a key/value head, rope and vocabulary stay the source's, so an
    enlarged shape is no published one and has a name of its own. The source's layers are spread
    evenly over the `layers`; how its numbers are laid into the larger ones says
    `harness.model.inflate`.
    """

    source: str
    width: int  # D
    layers: int  # L
    kv_heads: int  # K; the query heads follow
    ff: int  # F
    # Spread of every number that is not the source's. KL to the source grows with its fourth power
    # (zoo/small-gqa to 300m: 6e-7 nats at 1e-3, 1e-5 at 2e-3, 4e-4 at 5e-3).
    noise: float = 1e-3
    version: int = 1  # raised when the same recipe gives other weights

    def shape(self, name: str, small: ModelShape) -> ModelShape:
        """The enlarged shape; UsageError where it cannot hold the source's."""
        if small.mixers or small.windows or small.kv_share > 1 or not small.ff:
            raise UsageError(f"'{name}' cannot enlarge {self.source}, whose layers are no Llama's")
        group = small.heads // small.kv_heads
        large = replace(
            small,
            width=self.width,
            layers=self.layers,
            heads=self.kv_heads * group,
            kv_heads=self.kv_heads,
            ff=self.ff,
            eps=small.eps * small.width / self.width,
        )
        for field in ("width", "layers", "kv_heads", "ff"):
            wanted, has = getattr(large, field), getattr(small, field)
            if wanted < has:
                raise UsageError(f"'{name}' has {field} {wanted}, and {self.source} has {has}")
        return large

    def places(self, small: ModelShape) -> dict[int, int]:
        """Which layer of the source each of some layers is; the others only add noise."""
        return {i * self.layers // small.layers: i for i in range(small.layers)}

    def checkpoint_hash(self, source_hash: str) -> str:
        """Names the enlarged weights: by the source's, and by the recipe."""
        text = json.dumps([source_hash, asdict(self)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


# The zoo's speculative pair at two sizes, each draft a tenth of its target. Widths are 4 and 16
# times the source's, so that the square root that norms are scaled by is a power of two and rounds
# nothing in 16 bits.
INFLATED: dict[str, Inflation] = {
    "inflated-300m": Inflation("zoo/target", width=1024, layers=24, kv_heads=8, ff=3200),
    "inflated-30m": Inflation("zoo/draft", width=1024, layers=3, kv_heads=8, ff=2304),
    "inflated-8b": Inflation("zoo/target", width=4096, layers=32, kv_heads=32, ff=16896),
    "inflated-800m": Inflation("zoo/draft", width=4096, layers=4, kv_heads=32, ff=12800),
}
