"""A processor's times of a forward's operations as they were measured, and between the measured."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveFloat, model_validator

from harness.records import Record

Array = NDArray[np.float64]


class Measured(Record):
    """Times of one dtype and number of threads, by size.

    A processor's library goes other ways for one row, for few and for many, and its caches hold a
    small model between steps; no form of two constants follows that, a table of two sizes does.
    Rows, working sets and queries ascend.
    """

    rows: tuple[PositiveFloat, ...]  # of activations in a matrix product
    head_factor: tuple[PositiveFloat, ...]  # by rows: of a weight that lies as an embedding's
    working_sets: tuple[PositiveFloat, ...]  # bytes that come between two reads of a weight
    product_seconds: tuple[tuple[PositiveFloat, ...], ...]  # [rows][sets], a number of the weight
    queries: tuple[PositiveFloat, ...]  # of one sequence in one attention
    attention_flops_per_s: tuple[PositiveFloat, ...]  # by queries, beside reading the state
    state_bytes_per_s: PositiveFloat
    between_bytes_per_s: PositiveFloat  # norms, rotations, gates, as fused operations would move

    @model_validator(mode="after")
    def _is_a_table(self) -> Self:
        sizes = [len(row) for row in self.product_seconds]
        if sizes != [len(self.working_sets)] * len(self.rows):
            raise ValueError("product_seconds is no table of rows by working sets")
        if len(self.head_factor) != len(self.rows):
            raise ValueError("head_factor has a number for each number of rows")
        if len(self.queries) != len(self.attention_flops_per_s):
            raise ValueError("attention has a rate for each number of queries")
        return self

    def number_seconds(
        self, rows: Array | float, working_set: Array | float, as_embedding: bool = False
    ) -> Array:
        """Seconds of a product a number of its weight, whatever its shape.

        Between the entries by logarithms; with more rows than measured in proportion to them.
        """
        table = np.log(np.array(self.product_seconds))
        across = np.log(np.asarray(working_set, dtype=float).clip(1.0, 1e18))
        along = np.log(np.asarray(rows, dtype=float).clip(self.rows[0]))
        known, sets = np.log(self.rows), np.log(self.working_sets)
        across, along = np.broadcast_arrays(across, along)
        columns = np.stack([np.interp(across, sets, line) for line in table])  # [rows, ...]
        upper = np.searchsorted(known, along).clip(1, len(known) - 1)
        left, right = known[upper - 1], known[upper]
        share = ((along - left) / (right - left)).clip(0.0, 1.0)
        low = np.take_along_axis(columns, (upper - 1)[None], axis=0)[0]
        high = np.take_along_axis(columns, upper[None], axis=0)[0]
        beyond = np.maximum(along - known[-1], 0.0)
        if as_embedding:
            beyond = beyond + np.interp(along, known, np.log(self.head_factor))
        seconds: Array = np.exp(low + share * (high - low) + beyond)
        return seconds

    def attention_seconds(self, flops: Array, queries: Array | float) -> Array:
        """Seconds of attention's arithmetic with so many queries a sequence."""
        at = np.log(np.asarray(queries, dtype=float).clip(1.0))
        rates = np.interp(at, np.log(self.queries), np.log(self.attention_flops_per_s))
        seconds: Array = flops / np.exp(rates)
        return seconds
