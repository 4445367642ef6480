"""The sizes of a selective state space, read off a model's shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.shape import ModelShape

# Tokens of one chunk of a prompt's scan: its states are held at once, and combining them takes log2
# of it passes.
CHUNK = 32

Extra = tuple[tuple[str, int | float | str], ...]


@dataclass(frozen=True)
class Sizes:
    """Numbers of a layer; arXiv:2312.00752 calls them E D, N, and the rank of delta."""

    inner: int  # channels, each with a state of its own
    state: int  # numbers of a channel's state
    conv: int  # tokens that the convolution sees, itself included
    rank: int  # of the projection to the time step
    normed: bool  # whether time step, B and C have norms, as in Jamba (arXiv:2403.19887, 6.4)

    @property
    def selected(self) -> int:
        """Numbers that one token chooses: time step, B and C."""
        return self.rank + 2 * self.state


def of(shape: ModelShape) -> Sizes:
    """The sizes that a shape's `extra` holds."""
    inner, state, conv, rank, normed = (int(shape.number(name)) for name in NAMES)
    return Sizes(inner, state, conv, rank, bool(normed))


NAMES = ("mamba_inner", "mamba_state", "mamba_conv", "mamba_rank", "mamba_normed")


def filled(shape: ModelShape, given: Mapping[str, int | None]) -> Extra:
    """The shape's `extra` with the sizes that are given, a checkpoint's own, or the defaults:
    twice the width, 16, 4, a sixteenth of the width (arXiv:2312.00752, 3.4 and E.2)."""
    held = dict(shape.extra)
    defaults = (2 * shape.width, 16, 4, -(-shape.width // 16), 0)
    for name, default in zip(NAMES, defaults, strict=True):
        chosen = given.get(name)
        held[name] = chosen if chosen is not None else held.get(name, default)
    return tuple(sorted(held.items()))
