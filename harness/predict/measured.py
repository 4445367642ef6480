"""A processor's times of a forward's operations as they were measured, and between the measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PositiveFloat, model_validator

from harness.records import Record

Array = NDArray[np.float64]


class Measured(Record):
    """Times of one dtype and number of threads, by size.

    A processor's library goes other ways for one row, for few and for many, and its caches hold a
    small model between steps; no form of two constants follows that, a table of two sizes does.
    Rows, working sets, queries and widths ascend.
    """

    rows: tuple[PositiveFloat, ...] = Field(min_length=2)  # of activations in a matrix product
    head_factor: tuple[PositiveFloat, ...]  # by rows: of a weight that lies as an embedding's
    working_sets: tuple[PositiveFloat, ...]  # bytes that come between two reads of a weight
    product_seconds: tuple[tuple[PositiveFloat, ...], ...]  # [rows][sets], a number of the weight
    # By working sets: more of a launch, whose code and data large weights drive from the caches.
    launch_seconds_more: tuple[NonNegativeFloat, ...]
    queries: tuple[PositiveFloat, ...] = Field(min_length=2)  # of a sequence in one attention
    attention_widths: tuple[PositiveFloat, ...]  # numbers in all heads of a query
    # [queries][widths], beside reading the state
    attention_flops_per_s: tuple[tuple[PositiveFloat, ...], ...]
    state_bytes_per_s: PositiveFloat
    # Norms, rotations, gates, as fused operations would move; by the bytes that each moves.
    between_sizes: tuple[PositiveFloat, ...]
    between_bytes_per_s: tuple[PositiveFloat, ...]

    @model_validator(mode="after")
    def _is_a_table(self) -> Self:
        for name, lines, rows, columns in (
            ("product_seconds", self.product_seconds, self.rows, self.working_sets),
            ("attention_flops_per_s", self.attention_flops_per_s, self.queries,
             self.attention_widths),
        ):  # fmt: skip
            if [len(line) for line in lines] != [len(columns)] * len(rows):
                raise ValueError(f"{name} is no table of {len(rows)} by {len(columns)}")
        if len(self.between_sizes) != len(self.between_bytes_per_s):
            raise ValueError("between_bytes_per_s has a rate for each size")
        if len(self.launch_seconds_more) != len(self.working_sets):
            raise ValueError("launch_seconds_more has a number for each working set")
        if len(self.head_factor) != len(self.rows):
            raise ValueError("head_factor has a number for each number of rows")
        return self

    def number_seconds(
        self, rows: Array | float, working_set: Array | float, as_embedding: bool = False
    ) -> Array:
        """Seconds of a product a number of its weight, whatever its shape.

        Between the entries by logarithms.
        """
        along = np.asarray(rows, dtype=float).clip(self.rows[0])
        seconds = _between(self.product_seconds, self.rows, self.working_sets, along, working_set)
        # With more rows than measured in proportion to them.
        seconds = seconds * np.maximum(along / self.rows[-1], 1.0)
        if as_embedding:
            factors = np.log(self.head_factor)
            seconds = seconds * np.exp(np.interp(np.log(along), np.log(self.rows), factors))
        return seconds

    def attention_seconds(
        self, flops: Array, queries: Array | float, width: float = np.inf
    ) -> Array:
        """Seconds of attention's arithmetic with so many queries a sequence, of that width."""
        rates = _between(
            self.attention_flops_per_s, self.queries, self.attention_widths, queries, width
        )
        seconds: Array = flops / rates
        return seconds

    def launch_more(self, working_set: Array | float) -> Array:
        """Seconds that a launch takes more than where everything is cached."""
        at = np.log(np.asarray(working_set, dtype=float).clip(1.0, 1e18))
        seconds: Array = np.interp(at, np.log(self.working_sets), self.launch_seconds_more)
        return seconds

    def between_seconds(self, moved: Array, operations: Array | float) -> Array:
        """Seconds in which so many operations move these bytes: large ones leave the caches."""
        each = np.log(np.maximum(moved / np.maximum(operations, 1.0), 1.0))
        rates = np.interp(each, np.log(self.between_sizes), np.log(self.between_bytes_per_s))
        seconds: Array = moved / np.exp(rates)
        return seconds


def _between(
    lines: Sequence[Sequence[float]],
    rows: Sequence[float],
    columns: Sequence[float],
    along: Array | float,
    across: Array | float,
) -> Array:
    """A table's value by logarithms between its entries, and the nearest entry's beyond them."""
    table, known = np.log(np.array(lines)), np.log(rows)
    at, beside = (np.log(np.asarray(each, dtype=float).clip(1.0, 1e18)) for each in (along, across))
    at, beside = np.broadcast_arrays(at, beside)
    found = np.stack([np.interp(beside, np.log(columns), line) for line in table])  # [rows, ...]
    upper = np.searchsorted(known, at).clip(1, len(known) - 1)
    left, right = known[upper - 1], known[upper]
    share = ((at - left) / (right - left)).clip(0.0, 1.0)
    low = np.take_along_axis(found, (upper - 1)[None], axis=0)[0]
    high = np.take_along_axis(found, upper[None], axis=0)[0]
    value: Array = np.exp(low + share * (high - low))
    return value
