"""What a forward moves and computes: bytes and FLOPs, counted from shapes alone.

Sources: lecture 2.2, 2.3 and 3.3; a multiply-add counts as two FLOPs.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from harness.shape import DTYPE_BYTES, BatchShape

if TYPE_CHECKING:
    from harness.plan import EnginePlan


@dataclass(frozen=True)
class Cost:
    """Work of one or more forwards. Adds and scales."""

    flops: float = 0.0
    weight_bytes: float = 0.0  # read once a forward
    state_read_bytes: float = 0.0
    state_write_bytes: float = 0.0
    activation_bytes: float = 0.0
    collective_bytes: float = 0.0
    launches: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __mul__(self, times: float) -> Cost:
        return Cost(*(getattr(self, f.name) * times for f in fields(self)))

    @property
    def bytes(self) -> float:
        """All bytes moved to or from the device's memory, collectives not counted."""
        return (
            self.weight_bytes + self.state_read_bytes + self.state_write_bytes
        ) + self.activation_bytes

    @property
    def intensity(self) -> float:
        """FLOPs a byte; infinite when nothing is moved."""
        return self.flops / self.bytes if self.bytes else float("inf")


def matrix_numbers(plan: EnginePlan) -> float:
    """Weights that a forward multiplies with: every linear layer and the head."""
    s = plan.shape
    qo = 2 * s.width * s.heads * s.head_dim
    kv = 2 * s.width * s.kv_heads * s.head_dim / s.kv_share
    return s.layers * (qo + kv + 3 * s.width * s.ff) + s.vocab * s.width


def attention_cost(plan: EnginePlan, batch: BatchShape) -> Cost:
    """One forward of a decoder LM whose layers are softmax attention with a feed-forward.

    The head runs on one row a sequence. State is read once a layer: grouped queries share a read,
    layers that share keys and values (`kv_share`) still read them each.
    """
    s, size = plan.shape, DTYPE_BYTES[plan.dtype]
    B, T, S = batch.sequences, batch.queries, batch.context
    rows = B * T
    head = s.vocab * s.width
    # Keys a query row sees, summed over the T rows of a sequence: S held before plus a triangle.
    pairs = T * S + T * (T + 1) / 2
    entry = 2 * s.kv_heads * s.head_dim * size
    linear = 2 * rows * (matrix_numbers(plan) - head) + 2 * B * head
    attention = 4 * B * s.layers * s.heads * s.head_dim * pairs
    return Cost(
        flops=linear + attention,
        weight_bytes=matrix_numbers(plan) * size,
        state_read_bytes=B * s.layers * (S + T) * entry,
        state_write_bytes=B * T * (s.layers / s.kv_share) * entry,
        activation_bytes=0.0,
        launches=s.layers * 12 + 3,
    )


def widen_when_recomputed(plan: EnginePlan, batch: BatchShape) -> BatchShape:
    """Without an incremental cache every forward feeds the whole sequence again."""
    if "incremental" in plan.traits:
        return batch
    return replace(batch, queries=batch.queries + batch.context, context=0)
