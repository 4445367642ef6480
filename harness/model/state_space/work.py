"""What a forward with selective state spaces moves and computes. Imports no torch."""

from __future__ import annotations

import math

from harness.cost import Cost, Product, outer_cost
from harness.model.state_space.sizes import CHUNK, of
from harness.plan import EnginePlan
from harness.shape import DTYPE_BYTES, BatchShape

# Operations of a mixer: four products, convolution and its gate, the step's softplus, the scan,
# skip and output gate.
_LAUNCHES = 10
# A prompt is scanned in chunks of so many tokens by doubling strides, each of which moves
# decays and entries twice (`scan.py`); a step updates its state at once. Operations of a chunk: two
# copies, the state before, five a stride, two to read out.
_STRIDES = int(math.log2(CHUNK))
_CHUNK_LAUNCHES = 5 + 5 * _STRIDES + 2
# Of every sequence beside its chunks: its window is joined, convolved and kept.
_SEQUENCE_LAUNCHES = 3
# Of a channel's number a token: decay (a product, an exponential), input (two), sum, output (two).
SCAN_FLOPS = 7


def decoder_cost(plan: EnginePlan, batch: BatchShape) -> Cost:
    """One forward of a decoder LM whose layers are all selective state spaces."""
    return outer_cost(plan, batch) + layers_cost(plan, batch, plan.shape.layers)


def layers_cost(plan: EnginePlan, batch: BatchShape, layers: int) -> Cost:
    """The mixers of so many layers. A state is read and written once a forward."""
    s, size, z = plan.shape, DTYPE_BYTES[plan.dtype], of(plan.shape)
    B, rows = batch.sequences, batch.sequences * batch.queries
    multiplied = (
        Product(rows, s.width, 2 * z.inner, layers),
        Product(rows, z.inner, z.selected, layers),
        Product(rows, z.rank, z.inner, layers),
        Product(rows, z.inner, s.width, layers),
    )
    small = layers * z.inner * (z.state + z.conv + 3)
    # The scan's state is kept in float32 whatever the model's dtype.
    state = B * layers * z.inner * ((z.conv - 1) * size + z.state * max(4, size))
    between = rows * layers * (9 * z.inner + 2 * z.selected)
    prompt = (batch.queries > 1) * 1.0
    # Decay, entry and state of every channel's numbers, in float32 as the state.
    wide = rows * layers * z.inner * z.state * (4 + 4 * _STRIDES * prompt)
    chunks = prompt * (batch.queries / CHUNK + 0.5)
    looped = B * (_SEQUENCE_LAUNCHES + _CHUNK_LAUNCHES * chunks)
    scanned = rows * layers * z.inner * (SCAN_FLOPS * z.state + 2 * z.conv)
    return Cost(
        flops=sum(each.flops for each in multiplied) + scanned,
        weight_bytes=(sum(each.weights for each in multiplied) + small) * size,
        state_read_bytes=state,
        state_write_bytes=state,
        state_held_bytes=state,
        activation_bytes=(sum(each.activations for each in multiplied) + between) * size
        + wide * max(4, size),
        launches=layers * (_LAUNCHES + looped),
        products=multiplied,
    )
