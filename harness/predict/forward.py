"""How long a forward takes, from what it moves and computes: by class of operation, then in all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.cost import Cost
from harness.predict.measured import Measured
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
    queries: Array | float = 1.0,
    width: float = np.inf,
) -> Forward:
    """Predict one forward.

    Args:
        cost: of the forward; its numbers may be arrays that broadcast.
        rates: of the device, in the dtype of the forward.
        size: bytes of a number of activations.
        sequences: B, for what a host spends on each.
        working_set: bytes that come between two reads of the same weight.
        queries: tokens of a sequence that this forward feeds; more than one are a prompt's.
        width: numbers in all heads of a query, for a processor.
    """
    share = rates.efficiency
    if rates.measured is None:
        work, compute, memory = _on_gpu(cost, rates, size)
    else:
        work, compute, memory = _on_processor(
            cost, rates, rates.measured, size, working_set, queries, width
        )
    more = 0.0 if rates.measured is None else rates.measured.launch_more(working_set)
    launches = np.asarray(cost.launches * (share.launch_seconds + more), dtype=float)
    prompt = np.asarray(queries > 1, dtype=float) * share.prompt_seconds
    spent = launches + share.step_seconds + prompt + sequences * share.sequence_seconds
    return Forward(work + spent, compute, memory, spent)


def _on_gpu(cost: Cost, rates: Rates, size: float) -> tuple[Array, Array, Array]:
    """Seconds of all work, and of its arithmetic and its traffic alone."""
    share = rates.efficiency
    reached = rates.bandwidth * share.memory
    counted = sum(product.weights for product in cost.products) * size
    # A technique that stores weights in fewer bytes scales all of them.
    weight_size = float(size * cost.weight_bytes / counted if counted else size)
    products: Array = np.zeros(())
    compute: Array = np.zeros(())
    for each in cost.products:
        rows = np.asarray(each.rows, dtype=float)
        shape = (rows, float(each.inner), float(each.outer), rates, size)
        products = products + each.count * product_seconds(*shape, weight_size=weight_size)
        compute = compute + each.count * compute_seconds(*shape, weight_size)
    if not cost.products:
        # A technique that does not say which products it has: the whole as one roofline.
        products = np.asarray(cost.weight_bytes / reached)
    attention_compute = _attention_flops(cost) / (rates.flops_per_s * share.matrix)
    attention_memory = _state_bytes(cost) / reached
    between = _between_bytes(cost, size) / reached
    work = products + overlapped(attention_compute, attention_memory) + between
    memory = (
        (np.asarray(cost.weight_bytes) + _multiplied_bytes(cost, size)) / reached
        + between
        + attention_memory
    )
    return work, compute + attention_compute, memory


def _on_processor(
    cost: Cost,
    rates: Rates,
    measured: Measured,
    size: float,
    working_set: Array | float,
    queries: Array | float,
    width: float,
) -> tuple[Array, Array, Array]:
    """The same where one core does one thing after the other: nothing overlaps."""
    products: Array = np.zeros(())
    for each in cost.products:
        inner, outer = float(each.inner), float(each.outer)
        products = products + each.count * product_seconds(
            each.rows, inner, outer, rates, size, working_set=working_set,
            as_embedding=each.as_embedding,
        )  # fmt: skip
    # Weights of no product, which a technique folds into others, are read once.
    counted = sum(each.weights for each in cost.products) * size
    folded = np.maximum(np.asarray(cost.weight_bytes, dtype=float) - counted, 0.0) / size
    products = products + folded * measured.number_seconds(1.0, working_set)
    multiplied = sum(each.flops for each in cost.products) / rates.flops_per_s
    attention = measured.attention_seconds(_attention_flops(cost), queries, width)
    moved = _state_bytes(cost) / measured.state_bytes_per_s
    between = measured.between_seconds(_between_bytes(cost, size), cost.launches)
    # What a product takes beyond its arithmetic at the best rate is the fetching of its weights.
    memory = np.maximum(products - multiplied, 0.0) + moved + between
    return products + attention + moved + between, multiplied + attention, memory


def _attention_flops(cost: Cost) -> Array:
    """FLOPs of no product: attention's and scans'."""
    flops = np.asarray(cost.flops, dtype=float) - sum(each.flops for each in cost.products)
    return np.maximum(flops, 0.0)


def _state_bytes(cost: Cost) -> Array:
    return np.asarray(cost.state_read_bytes + cost.state_write_bytes, dtype=float)


def _multiplied_bytes(cost: Cost, size: float) -> float:
    """Rows in and out of all products."""
    return sum(product.activations for product in cost.products) * size


def _between_bytes(cost: Cost, size: float) -> Array:
    """Activations that no product moves."""
    moved = np.asarray(cost.activation_bytes, dtype=float) - _multiplied_bytes(cost, size)
    return np.maximum(moved, 0.0)
