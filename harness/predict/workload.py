"""What a `generate` workload takes on a device: time by phase, what binds, memory, cost, energy.

Every number may be an array: a grid of batches and lengths is one call. Times come from the
techniques' own costs (`harness.cost`), folded over the stack, through the model of `products` and
`forward`. The decode phase is integrated over its steps by Simpson's rule, which is exact where a
step's time is quadratic in the tokens held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.cost import Cost
from harness.hardware.estimate import fold, held_bytes, peak_activation_bytes, weights_bytes
from harness.plan import EnginePlan, Trait
from harness.predict.forward import Forward, forward
from harness.predict.products import Array
from harness.predict.target import Target
from harness.shape import DTYPE_BYTES, BatchShape
from harness.stack import Part

# Of a normal distribution's logarithms: 95 % lie within so many standard deviations.
Z95 = 1.96


@dataclass(frozen=True)
class Prediction:
    """One stack on one device over a grid; arrays of the grid's shape, seconds and bytes.

    A time holds within a factor `factor` in 95 % of cases. What does not fit has its times all the
    same: they say what it would take on a device with more memory. `usd_per_million_tokens` is None
    without a price, `joules_per_token` is an upper bound, at the device's power limit.
    """

    target: Target
    ttft: Array
    tpot: Array  # NaN where there is one new token
    e2e: Array
    throughput: Array
    prefill_throughput: Array
    decode_throughput: Array
    prefill: Forward
    decode: Forward  # half-way through
    work: Cost  # of that decode step
    weights_bytes: float
    state_bytes: Array
    peak_bytes: Array
    fits: np.ndarray
    largest_batch: np.ndarray
    bandwidth: float  # of memory, bytes a second
    factor: float

    @property
    def usd_per_million_tokens(self) -> Array | None:
        """Price an hour over tokens an hour; lecture 1.1's cost of a batch platform."""
        price = self.target.price_per_hour
        return None if price is None else price / (self.throughput * 3600) * 1e6

    @property
    def joules_per_token(self) -> Array | None:
        """At most: the power limit over the throughput."""
        return None if self.target.tdp_w is None else self.target.tdp_w / self.throughput

    @property
    def memory_floor_seconds(self) -> Array:
        """What a decode step takes at least where everything held is read once: lecture 4."""
        floor: Array = (self.weights_bytes + self.state_bytes) / self.bandwidth
        return floor


def generate(
    plan: EnginePlan,
    parts: Sequence[Part],
    batch: Array | int,
    prompt_tokens: Array | int,
    new_tokens: Array | int,
    target: Target,
) -> Prediction:
    """Predict B prompts of P tokens and N new tokens each.

    Args:
        plan: the stack on its model; its limits play no part.
        parts: the stack's techniques in order of `apply`.
        batch, prompt_tokens, new_tokens: numbers, or arrays that broadcast to the grid.
        target: the device.
    """
    B, P, N = np.broadcast_arrays(
        *(np.asarray(each, dtype=float) for each in (batch, prompt_tokens, new_tokens))
    )
    rates, size = target.rates_in(plan.dtype), DTYPE_BYTES[plan.dtype]
    weights = weights_bytes(plan, parts)
    width = plan.shape.heads * plan.shape.head_dim

    # Without a cache every forward's queries are the whole sequence.
    again = float(Trait.INCREMENTAL not in plan.traits)

    def at(queries: Any, context: Any) -> tuple[Cost, Forward]:
        # What does not differ over the grid stays a number, so that its times are worked out once.
        shape = BatchShape(_slim(B), queries, context)
        work = fold(plan, parts, shape)
        held = weights + work.state_read_bytes
        fed = queries + context * again
        return work, forward(work, rates, size, _slim(B), held, fed, width)

    _, prefill = at(_slim(P), 0)
    steps = np.maximum(N - 1, 0.0)
    first, middle, last = (at(1, _slim(P + steps * i / 2)) for i in range(3))
    ttft = np.broadcast_to(prefill.seconds, B.shape)
    step = (first[1].seconds + 4 * middle[1].seconds + last[1].seconds) / 6
    step = np.broadcast_to(step, B.shape)
    decode_s = steps * step
    e2e = ttft + decode_s
    # Of one sequence; the last token is never cached, but caches reserve room for it.
    sequence = np.broadcast_to(held_bytes(plan, parts, 1, _slim(P + N - 1)), B.shape)
    state = B * sequence
    longest = P if Trait.INCREMENTAL in plan.traits else P + N - 1
    reserved = B * held_bytes(plan, parts, 1, _slim(P + N))
    peak = weights + reserved + peak_activation_bytes(plan, B * longest, B)
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot = np.where(steps > 0, step, np.nan)
        decoded = np.where(steps > 0, B / step, np.nan)
        # Weights and state, as the lecture counts: activations could be made smaller.
        most = np.floor(np.divide(target.memory_bytes - weights, sequence))
    return Prediction(
        target=target,
        ttft=ttft,
        tpot=tpot,
        e2e=e2e,
        throughput=B * N / e2e,
        prefill_throughput=B * P / ttft,
        decode_throughput=decoded,
        prefill=prefill,
        decode=middle[1],
        work=middle[0],
        weights_bytes=weights,
        state_bytes=state,
        peak_bytes=peak,
        fits=peak <= target.memory_bytes,
        largest_batch=np.maximum(most, 0.0),
        bandwidth=rates.bandwidth,
        factor=float(np.exp(Z95 * rates.efficiency.spread)),
    )


def _slim(values: Array) -> Any:
    """The values without the axes along which they do not change, as broadcasting has them."""
    slim = values
    for axis in range(values.ndim):
        head = np.take(slim, [0], axis=axis)
        if (slim == head).all():
            slim = head
    return float(slim.reshape(())) if slim.size == 1 else slim
