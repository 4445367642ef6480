"""What a case will take and what it cannot beat, from shapes and ceilings alone. No torch.

Work is counted by the techniques' own cost functions, folded in order of apply. A step takes at
least the larger of its bytes over the bandwidth and its FLOPs over the peak: the roofline of
lecture 2.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness import registry
from harness.cost import Cost, widen_when_recomputed
from harness.hardware.ceilings import Ceilings
from harness.plan import EnginePlan, Trait
from harness.shape import DTYPE_BYTES, BatchShape
from harness.stack import Part, techniques
from harness.suite.case import StackSpec
from harness.suite.points import GeneratePoint, KernelPoint

# Crude, and only for planning: a small model in PyTorch reaches about this share of its floor, and
# each operation costs about this much on top, on a CPU and on a GPU alike.
EFFICIENCY = 0.5
SECONDS_PER_LAUNCH = 8e-6
# A kernel's calls take turns on sets of inputs that together leave the last-level cache, as far as
# this much memory allows.
KERNEL_INPUT_BYTES = 256 * 1024**2


@dataclass(frozen=True)
class Estimate:
    """What one case is expected to take. Seconds are None where no ceilings are known."""

    weights_bytes: int
    state_bytes: int  # held at the end: B (P + N - 1) entries
    reserved_bytes: int
    peak_bytes: int  # weights, reserved state and the largest activations; loading not counted
    seconds_per_repetition: float | None


def of_case(
    plan: EnginePlan, stack: StackSpec, point: GeneratePoint, ceilings: Ceilings | None
) -> Estimate:
    """Memory and time of one repetition of a `generate` point: B prompts of P tokens, N new ones.

    Args:
        plan: the resolved stack on its model.
        stack: whose techniques' costs are folded.
        ceilings: of the device; None leaves the time unknown.
    """
    parts = techniques(stack)
    B, P, N = point.batch, point.prompt_tokens, point.new_tokens
    weights = weights_bytes(plan, parts)
    # The last token is never fed back, so it is never cached.
    state = round(held_bytes(plan, parts, B, P + N - 1))
    capacity = plan.limits.max_tokens + plan.limits.lookahead
    reserved = max(state, round(held_bytes(plan, parts, plan.limits.slots, capacity)))
    longest = P if Trait.INCREMENTAL in plan.traits else P + N - 1
    return Estimate(
        weights_bytes=weights,
        state_bytes=state,
        reserved_bytes=reserved,
        peak_bytes=weights + reserved + peak_activation_bytes(plan, B * longest, B),
        seconds_per_repetition=None if ceilings is None else _seconds(plan, parts, point, ceilings),
    )


def floor_seconds(
    plan: EnginePlan, batch: BatchShape, ceilings: Ceilings, stack: StackSpec
) -> float:
    """The physical floor of one forward: a right measurement is below it by headroom at most.

    max(FLOPs / peak, bytes / bandwidth), where bytes that the last-level cache may still hold move
    at its rate. A dtype without a measured peak is bounded by its bytes alone.
    """
    return _floor_seconds(plan, step_cost(plan, stack, batch), ceilings)


def step_cost(plan: EnginePlan, stack: StackSpec, batch: BatchShape) -> Cost:
    """Work of one forward; without an incremental cache, of the whole sequences."""
    return fold(plan, techniques(stack), batch)


def kernel_cost(point: KernelPoint, dtype: str) -> Cost:
    """Work of one call of a kernel, by its own spec."""
    return registry.kernel(point.kernel).cost(point.sizes, dtype)


def kernel_queries(point: KernelPoint) -> float:
    """Query tokens a sequence: T where a kernel has such a size (0: all S of it), else one."""
    return float(point.sizes.get("T", 1) or point.sizes["S"])


def kernel_width(point: KernelPoint) -> float:
    """Numbers in all heads of a query; infinite of a kernel without heads."""
    return float(point.sizes.get("N", math.inf) * point.sizes.get("H", 1))


def kernel_floor_seconds(work: Cost, dtype: str, ceilings: Ceilings) -> float:
    """The physical floor of one call whose operands lie in memory or the last-level cache."""
    return max(ceilings.seconds_to_compute(work.flops, dtype), ceilings.seconds_to_move(work.bytes))


def fold(plan: EnginePlan, parts: Sequence[Part], batch: BatchShape) -> Cost:
    """Work of one forward by the techniques' costs in order of apply; a batch may be a grid."""
    counted = widen_when_recomputed(plan, batch)
    total = Cost()
    for technique, options in parts:
        total = technique.cost(total, plan, options, counted)
    return total


def _floor_seconds(plan: EnginePlan, work: Cost, ceilings: Ceilings) -> float:
    moved = work.weight_bytes
    # Where nothing is held between forwards, keys and values may never leave the processor.
    if Trait.INCREMENTAL in plan.traits:
        moved += work.state_read_bytes
    return max(ceilings.seconds_to_compute(work.flops, plan.dtype), ceilings.seconds_to_move(moved))


def weights_bytes(plan: EnginePlan, parts: Sequence[Part]) -> int:
    """Bytes of all weights: those a forward multiplies with, the embedding and the norms."""
    shape, size = plan.shape, DTYPE_BYTES[plan.dtype]
    embedding = 0 if shape.tied else shape.vocab * shape.width
    norms = (2 * shape.layers + 1) * shape.width
    multiplied = fold(plan, parts, BatchShape(1, 1, 0)).weight_bytes
    return round(multiplied + (embedding + norms) * size)


def held_bytes(plan: EnginePlan, parts: Sequence[Part], sequences: Any, tokens: Any) -> Any:
    """Bytes of state that so many sequences of so many tokens hold, over all layers.

    Both may be arrays.
    """
    return fold(plan, parts, BatchShape(sequences, 1, tokens - 1)).state_held_bytes


def peak_activation_bytes(plan: EnginePlan, rows: Any, sequences: Any) -> Any:
    """The widest moment of a layer over all rows of a forward, and the logits in float32.

    Both may be arrays, over a grid of batches.
    """
    s, size = plan.shape, DTYPE_BYTES[plan.dtype]
    attention = 2 * (s.heads + s.kv_heads) * s.head_dim
    return rows * (3 * s.width + max(attention, 3 * s.ff)) * size + sequences * s.vocab * 4


def _seconds(
    plan: EnginePlan, parts: Sequence[Part], point: GeneratePoint, ceilings: Ceilings
) -> float:
    """Prefill and N - 1 decode steps; the steps by Simpson's rule, exact for quadratic growth."""
    B, P, steps = point.batch, point.prompt_tokens, point.new_tokens - 1

    def forward(batch: BatchShape) -> float:
        work = fold(plan, parts, batch)
        floor = _floor_seconds(plan, work, ceilings)
        return floor / EFFICIENCY + work.launches * SECONDS_PER_LAUNCH

    first, middle, last = (forward(BatchShape(B, 1, P + steps * i // 2)) for i in range(3))
    return forward(BatchShape(B, P, 0)) + steps * (first + 4 * middle + last) / 6
