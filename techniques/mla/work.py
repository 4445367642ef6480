"""What a forward with latent attention moves and computes. Imports no torch."""

from __future__ import annotations

from typing import Any

from harness.cost import Cost, Product, outer_cost
from harness.kernels.decode_attention import MAX_ROWS
from harness.plan import EnginePlan
from harness.shape import DTYPE_BYTES, BatchShape
from harness.techniques.mla.sizes import of

# Operations of a mixer: the latent's norm, four products, two rotations, the write, the fold of
# W_UK, attention, the fold of W_UV.
_LAUNCHES = 11
# Of every sequence but the first, where each gives many rows: its latents, the fold and joining of
# its queries, attention, the fold back. A step's rows go through one kernel.
_SEQUENCE_LAUNCHES = 5


def decoder_cost(plan: EnginePlan, batch: BatchShape) -> Cost:
    """One forward of a decoder LM whose layers are latent attention with a feed-forward.

    Few query rows use the absorbed form, many the expanded one, as the layer does.
    """
    s, size, z = plan.shape, DTYPE_BYTES[plan.dtype], of(plan.shape)
    B, T, S = batch.sequences, batch.queries, batch.context
    rows, N, L = B * T, s.heads, s.layers
    absorbed = (z.most_absorbed >= T) * 1.0
    expanded = 1.0 - absorbed
    pairs = T * S + T * (T + 1) / 2
    if z.q_rank:
        queries = [
            Product(rows, s.width, z.q_rank, L),
            Product(rows, z.q_rank, N * z.query, L),
        ]
    else:
        queries = [Product(rows, s.width, N * z.query, L)]
    multiplied = (
        *queries,
        Product(rows, s.width, z.entry, L),
        Product(rows, N * z.value_dim, s.width, L),
    )
    up_numbers = L * N * (z.nope_dim + z.value_dim) * z.kv_rank
    # Folded into the rows of a step, or applied to every key it sees.
    up: Any = 2 * up_numbers * B * (absorbed * T + expanded * (S + T))
    scores: Any = absorbed * (2 * z.kv_rank + z.rope_dim) + expanded * (z.query + z.value_dim)
    entry = L * z.entry * size
    mixed = N * (z.query + z.value_dim)
    between = rows * L * (3 * z.entry + 2 * mixed)
    return outer_cost(plan, batch) + Cost(
        flops=sum(each.flops for each in multiplied) + up + 2 * B * L * N * scores * pairs,
        weight_bytes=(sum(each.weights for each in multiplied) + up_numbers) * size,
        state_read_bytes=B * (S + T) * entry,
        state_write_bytes=B * T * entry,
        state_held_bytes=B * (S + T) * entry,
        activation_bytes=(sum(each.activations for each in multiplied) + between) * size,
        launches=L * (_LAUNCHES + _SEQUENCE_LAUNCHES * (B - 1) * (T > MAX_ROWS)),
        products=multiplied,
    )
