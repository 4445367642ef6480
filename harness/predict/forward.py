"""How long a forward takes, from what it moves and computes: by class of operation, then in all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.cost import Cost
from harness.predict.products import Array, Rates, compute_seconds, overlapped, product_seconds

# What a phase may be bound by, in the order of `Forward.shares`.
BOUNDS = ("compute", "memory", "launches")


@dataclass(frozen=True)
class Forward:
    """Seconds of a forward, and of each kind of work if it were alone: arrays of one shape."""

    seconds: Array
    compute: Array
    memory: Array
    launches: Array

    @property
    def binds(self) -> np.ndarray:
        """Which kind of work takes longest, as an index into BOUNDS."""
        kinds = np.broadcast_arrays(self.compute, self.memory, self.launches)
        longest: np.ndarray = np.stack(kinds).argmax(axis=0)
        return longest


def forward(
    cost: Cost,
    rates: Rates,
    size: float,
    sequences: Array | float = 1.0,
    working_set: Array | float = np.inf,
) -> Forward:
    """Predict one forward.

    Args:
        cost: of the forward; its numbers may be arrays that broadcast.
        rates: of the device, in the dtype of the forward.
        size: bytes of a number of activations.
        sequences: B, for what a host spends on each.
        working_set: bytes that come between two reads of the same weight.
    """
    share = rates.efficiency
    counted = sum(product.weights for product in cost.products) * size
    # A technique that stores weights in fewer bytes scales all of them.
    weight_size = size * cost.weight_bytes / counted if counted else size
    zero: Array = np.zeros(())
    products = compute = zero
    for each in cost.products:
        rows = np.asarray(each.rows, dtype=float)
        inner, outer = float(each.inner), float(each.outer)
        seconds = product_seconds(
            rows, inner, outer, rates, size, weight_size=float(weight_size), working_set=working_set
        )
        products = products + each.count * seconds
        compute = compute + each.count * compute_seconds(
            rows, inner, outer, rates, size, float(weight_size)
        )
    bandwidth = rates.bandwidth_at(working_set)
    attention, attention_compute, attention_memory = _attention(cost, rates, bandwidth)
    multiplied = sum(product.activations for product in cost.products) * size
    between_bytes = np.maximum(np.asarray(cost.activation_bytes, dtype=float) - multiplied, 0.0)
    if not cost.products:
        # A technique that does not say which products it has: the whole as one roofline.
        products = np.asarray(cost.weight_bytes) / (bandwidth * share.memory)
    between = between_bytes / (bandwidth * (share.between or share.memory))
    launches = np.asarray(cost.launches * share.launch_seconds, dtype=float)
    device = products + attention + between + launches
    host = cost.launches * share.host_launch_seconds
    spent = share.step_seconds + sequences * share.sequence_seconds
    memory = (
        (np.asarray(cost.weight_bytes) + multiplied) / (bandwidth * share.memory)
        + between
        + attention_memory
    )
    return Forward(
        seconds=np.maximum(device, host) + spent,
        compute=compute + attention_compute,
        memory=memory,
        launches=np.maximum(launches, host) + spent,
    )


def _attention(cost: Cost, rates: Rates, bandwidth: Array) -> tuple[Array, Array, Array]:
    """Seconds of what works on state: attention and scans; together, computing, moving."""
    share = rates.efficiency
    flops = np.asarray(cost.flops, dtype=float) - sum(each.flops for each in cost.products)
    moved = np.asarray(cost.state_read_bytes + cost.state_write_bytes, dtype=float)
    compute = np.maximum(flops, 0.0) / (
        rates.flops_per_s * (share.attention_matrix or share.matrix)
    )
    memory = moved / (bandwidth * (share.attention_memory or share.memory))
    return overlapped(compute, memory), compute, memory
