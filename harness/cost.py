"""What a forward moves and computes: bytes and FLOPs, counted from shapes alone.

Sources: lecture 2.2, 2.3 and 3.3; a multiply-add counts as two FLOPs.

Cost functions are given numbers, or numpy arrays of them where a whole grid is predicted at once:
they compute with + - * / ** and `least`, and never ask `if` of a batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from harness.shape import DTYPE_BYTES, BatchShape

if TYPE_CHECKING:
    from harness.plan import EnginePlan


@dataclass(frozen=True)
class Product:
    """Equal matrix products of a forward: [rows, inner] times a weight [inner, outer]."""

    rows: float
    inner: float
    outer: float
    count: float = 1.0
    # The head's weight lies as the embedding's, [outer, inner]: some libraries mind.
    as_embedding: bool = False

    @property
    def flops(self) -> float:
        """Of all `count` products."""
        return 2.0 * self.count * self.rows * self.inner * self.outer

    @property
    def weights(self) -> float:
        """Numbers in all `count` weights."""
        return self.count * self.inner * self.outer

    @property
    def activations(self) -> float:
        """Numbers read and written beside the weights."""
        return self.count * self.rows * (self.inner + self.outer)


@dataclass(frozen=True)
class Cost:
    """Work of one or more forwards. Adds and scales.

    `products` details what `flops`, `weight_bytes` and `activation_bytes` already count: how long a
    matrix product takes depends on its shape. FLOPs of no product are attention's or a scan's.
    Whoever changes the bytes of weights need not touch it: their ratio is what counts.
    """

    flops: float = 0.0
    weight_bytes: float = 0.0  # read once a forward
    state_read_bytes: float = 0.0
    state_write_bytes: float = 0.0
    state_held_bytes: float = 0.0  # after the forward; of several it is no sum
    activation_bytes: float = 0.0
    collective_bytes: float = 0.0
    launches: float = 0.0
    products: tuple[Product, ...] = field(default=(), repr=False)

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __mul__(self, times: float) -> Cost:
        names = (f.name for f in fields(self) if f.name != "products")
        numbers = {name: getattr(self, name) * times for name in names}
        scaled = tuple(replace(each, count=each.count * times) for each in self.products)
        return Cost(**numbers, products=scaled)

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


# Operations in 16 bits on a GPU. Of attention in a layer: two products, three of the rotation, two
# writes to the cache, attention itself.
ATTENTION_LAUNCHES = 8
# Around a layer's mixer: its norm; with a feed-forward another norm, two products, the gate's two.
NORM_LAUNCHES = 1
FEED_FORWARD_LAUNCHES = 5
# Of a forward: embedding, norm, head, choice.
FORWARD_LAUNCHES = 4
# Of these one attention and two writes come once a sequence where prompts differ in length.
SEQUENCE_LAUNCHES = 3


def matrix_numbers(plan: EnginePlan) -> float:
    """Weights that a forward multiplies with: every linear layer and the head."""
    return sum(product.weights for product in products(plan, 1, 1))


def products(plan: EnginePlan, rows: float, head_rows: float) -> tuple[Product, ...]:
    """The matrix products of a forward of a Llama-like model, fused as its layers are."""
    s = plan.shape
    mixing = _attention_products(plan, rows, s.layers, len(s.spans()))
    return (*mixing, *outer_products(plan, rows, head_rows))


def _attention_products(
    plan: EnginePlan, rows: Any, layers: int, owners: int
) -> tuple[Product, ...]:
    """Of layers that share keys and values the owner alone projects them."""
    s = plan.shape
    q, kv = s.heads * s.head_dim, 2 * s.kv_heads * s.head_dim
    return _present(
        [
            Product(rows, s.width, q + kv, owners),
            Product(rows, s.width, q, layers - owners),
            Product(rows, q, s.width, layers),
        ]
    )


def outer_products(plan: EnginePlan, rows: Any, head_rows: Any) -> tuple[Product, ...]:
    """The matrix products around the mixers: feed-forward of every layer, and the head."""
    s = plan.shape
    return _present(
        [
            Product(rows, s.width, 2 * s.ff, s.layers),
            Product(rows, s.ff, s.width, s.layers),
            Product(head_rows, s.width, s.vocab, as_embedding=True),
        ]
    )


def _present(found: list[Product]) -> tuple[Product, ...]:
    return tuple(each for each in found if each.count and each.inner and each.outer)


def attention_cost(plan: EnginePlan, batch: BatchShape) -> Cost:
    """One forward of a decoder LM whose layers are softmax attention with a feed-forward."""
    return outer_cost(plan, batch) + attention_layers_cost(plan, batch, range(plan.shape.layers))


def outer_cost(plan: EnginePlan, batch: BatchShape) -> Cost:
    """What is around the mixers: embedding, norms, feed-forward, and the head on one row a
    sequence. Activations are read and written once by each operation."""
    s, size = plan.shape, DTYPE_BYTES[plan.dtype]
    rows = batch.sequences * batch.queries
    multiplied = outer_products(plan, rows, batch.sequences)
    # Two norms more, each with its addition.
    around = NORM_LAUNCHES + FEED_FORWARD_LAUNCHES * (s.ff > 0) + 4 * s.post_norms
    # Norms and residuals, the gate, embedding and head.
    norms = (6 + 4 * s.post_norms) * s.width
    between = rows * s.layers * (norms + 3 * s.ff) + 4 * rows * s.width
    return Cost(
        flops=sum(each.flops for each in multiplied),
        weight_bytes=sum(each.weights for each in multiplied) * size,
        activation_bytes=(sum(each.activations for each in multiplied) + between) * size,
        launches=s.layers * around + FORWARD_LAUNCHES,
        products=multiplied,
    )


def attention_layers_cost(plan: EnginePlan, batch: BatchShape, layers: Sequence[int]) -> Cost:
    """Softmax attention in some of the layers, with all of the spans that they share.

    State is read once a layer: grouped queries share a read, layers that share keys and values
    still read them each, and a layer with a window reads what its rows see.
    """
    s, size = plan.shape, DTYPE_BYTES[plan.dtype]
    B, T, S = batch.sequences, batch.queries, batch.context
    rows = B * T
    q, kv = s.heads * s.head_dim, 2 * s.kv_heads * s.head_dim
    entry = kv * size
    spans = [span for span in s.spans() if span.start in layers]
    multiplied = _attention_products(plan, rows, len(layers), len(spans))
    # How many layers, and how many groups of state, have each window.
    seeing = Counter(s.window(layer) for layer in layers)
    groups = Counter(s.window(span.start) for span in spans)
    pairs = sum(count * _pairs(T, S, window) for window, count in seeing.items())
    read = sum(count * _within(S + T, window, T - 1) for window, count in seeing.items())
    held = sum(count * _within(S + T, window) for window, count in groups.items())
    # Rotation of queries and keys, queries in and mixed values out.
    between = rows * len(layers) * (4 * q + kv + s.qk_norm * (2 * q + kv))
    # Prompts are attended to sequence by sequence.
    looped = len(layers) * (T > 1)
    return Cost(
        flops=sum(each.flops for each in multiplied) + 4 * B * q * pairs,
        weight_bytes=sum(each.weights for each in multiplied) * size,
        state_read_bytes=B * read * entry,
        state_write_bytes=B * T * len(spans) * entry,
        state_held_bytes=B * held * entry,
        activation_bytes=(sum(each.activations for each in multiplied) + between) * size,
        launches=len(layers) * (ATTENTION_LAUNCHES + 2 * s.qk_norm)
        + SEQUENCE_LAUNCHES * (B - 1) * looped,
        products=multiplied,
    )


def least(one: Any, other: Any) -> Any:
    """The smaller of two numbers, or of each pair in two arrays; needs no numpy."""
    return (one + other - abs(one - other)) / 2


def _pairs(queries: Any, context: Any, window: int | None) -> Any:
    """Keys seen, summed over the rows of a sequence: T S + a triangle, or at most W a row."""
    return _seen(context + queries, window) - _seen(context, window)


def _seen(tokens: Any, window: int | None) -> Any:
    """The same for the first `tokens` rows: min(1, W) + min(2, W) + .."""
    growing = _within(tokens, window)
    seen = growing * (growing + 1) / 2
    return seen if window is None else seen + (tokens - growing) * window


def _within(tokens: Any, window: int | None, beside: Any = 0) -> Any:
    """The tokens that a window and `beside` more hold of so many."""
    return tokens if window is None else least(tokens, window + beside)


def widen_when_recomputed(plan: EnginePlan, batch: BatchShape) -> BatchShape:
    """Without an incremental cache every forward feeds the whole sequence again."""
    if "incremental" in plan.traits:
        return batch
    return replace(batch, queries=batch.queries + batch.context, context=0)
