"""The sizes of latent attention, read off a model's shape."""

from __future__ import annotations

from dataclasses import dataclass

from harness.shape import ModelShape


@dataclass(frozen=True)
class Sizes:
    """Numbers a head or a token; see the options of the technique."""

    kv_rank: int  # R
    rope_dim: int
    nope_dim: int
    value_dim: int
    q_rank: int  # 0: queries are projected at once

    @property
    def entry(self) -> int:
        """Numbers kept a token and layer."""
        return self.kv_rank + self.rope_dim

    @property
    def query(self) -> int:
        """Numbers of a head's query and key."""
        return self.nope_dim + self.rope_dim

    @property
    def most_absorbed(self) -> float:
        """Query rows up to which folding W_UK and W_UV away takes fewer FLOPs than expanding keys
        and values: absorbed scores and sums take 2 R + rope a pair, expanded ones nope + rope + v
        beside (nope + v) R a key."""
        saved = 2 * self.kv_rank - self.nope_dim - self.value_dim
        if saved <= 0:
            return float("inf")
        return (self.nope_dim + self.value_dim) * self.kv_rank / saved


def of(shape: ModelShape) -> Sizes:
    """The sizes that a shape's `extra` holds."""
    names = ("kv_rank", "rope_dim", "nope_dim", "value_dim", "q_rank")
    return Sizes(*(int(shape.number(name)) for name in names))
