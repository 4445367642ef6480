"""Predictions of suites and kernels as rows: for people, and as plain numbers for programs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from harness.predict.forward import BOUNDS
from harness.predict.suites import Block, KernelPrediction
from harness.predict.workload import Prediction
from harness.report import units

COLUMNS = (
    "stack", "dtype", "B", "P", "N", "hardware", "first token", "time/token", "tokens/s", "memory",
    "fits", "largest B", "binds", "USD/Mtok", "J/tok <=",
)  # fmt: skip
KERNEL_COLUMNS = (
    "kernel", "sizes", "dtype", "hardware", "a call", "FLOP/s", "bytes/s", "FLOP/B", "binds",
)  # fmt: skip
# In s, bytes and tokens/s.
NUMBERS = (
    "stack", "model", "dtype", "batch", "prompt_tokens", "new_tokens", "hardware", "ttft_s",
    "tpot_s", "e2e_s", "tokens_per_s", "weights_bytes", "state_bytes", "peak_bytes", "fits",
    "largest_batch", "prefill_binds", "decode_binds", "usd_per_million_tokens",
    "joules_per_token_at_most", "factor_95",
)  # fmt: skip
KERNEL_NUMBERS = ("kernel", "sizes", "dtype", "hardware", "seconds", "flops", "bytes", "binds")


def rows(block: Block) -> Iterator[tuple[str, ...]]:
    """The points of a block under COLUMNS; none where it was refused."""
    if block.prediction is None:
        return
    for (batch, prompt, new), point in zip(
        block.points.tolist(), _points(block.prediction), strict=True
    ):
        tpot, fits = point["tpot"], "yes" if point["fits"] else "NO"
        yield (
            block.stack,
            block.dtype,
            str(batch),
            str(prompt),
            str(new),
            block.target.name,
            units.duration(point["ttft"] * 1e9),
            units.NOTHING if math.isnan(tpot) else units.duration(tpot * 1e9),
            units.digits(point["throughput"]),
            units.size(point["peak_bytes"]),
            f"> {block.places} places" if prompt + new > block.places else fits,
            _most(point["largest_batch"]),
            f"{BOUNDS[point['prefill']]}, {BOUNDS[point['decode']]}",
            _digits(point["usd"]),
            _digits(point["joules"]),
        )


def numbers(block: Block) -> Iterator[tuple[Any, ...]]:
    """The points of a block under NUMBERS; what is undefined is empty."""
    found = block.prediction
    if found is None:
        return
    for point_sizes, point in zip(block.points.tolist(), _points(found), strict=True):
        tpot, most = point["tpot"], point["largest_batch"]
        yield (
            block.stack, block.model, block.dtype, *point_sizes, block.target.name, point["ttft"],
            "" if math.isnan(tpot) else tpot, point["e2e"], point["throughput"],
            found.weights_bytes, int(point["state_bytes"]), int(point["peak_bytes"]),
            point["fits"], "" if math.isinf(most) else int(most), BOUNDS[point["prefill"]],
            BOUNDS[point["decode"]], "" if point["usd"] is None else point["usd"],
            "" if point["joules"] is None else point["joules"], found.factor,
        )  # fmt: skip


def kernel_row(found: KernelPrediction) -> tuple[str, ...]:
    """One kernel under KERNEL_COLUMNS."""
    return (
        found.point.kernel,
        found.point.title,
        found.dtype,
        found.target.name,
        units.duration(found.seconds * 1e9),
        units.value("achieved_flops", found.flops / found.seconds),
        units.value("achieved_bandwidth", found.moved_bytes / found.seconds),
        units.digits(found.flops / found.moved_bytes),
        found.binds,
    )


def kernel_numbers(found: KernelPrediction) -> tuple[Any, ...]:
    """One kernel under KERNEL_NUMBERS."""
    return (
        found.point.kernel, found.point.title, found.dtype, found.target.name, found.seconds,
        found.flops, found.moved_bytes, found.binds,
    )  # fmt: skip


def _points(found: Prediction) -> Iterator[dict[str, Any]]:
    """What was predicted, point by point, as Python's own numbers; None where nothing is known.

    Arrays that do not differ over the grid may have been kept as one number.
    """
    columns = {
        "ttft": found.ttft,
        "tpot": found.tpot,
        "e2e": found.e2e,
        "throughput": found.throughput,
        "state_bytes": found.state_bytes,
        "peak_bytes": found.peak_bytes,
        "fits": found.fits,
        "largest_batch": found.largest_batch,
        "prefill": found.prefill.binds,
        "decode": found.decode.binds,
        "usd": found.usd_per_million_tokens,
        "joules": found.joules_per_token,
    }
    shape, nothing = found.ttft.shape, [None] * found.ttft.size
    lists = [
        nothing if values is None else np.broadcast_to(values, shape).tolist()
        for values in columns.values()
    ]
    for point in zip(*lists, strict=True):
        yield dict(zip(columns, point, strict=True))


def _most(largest: float) -> str:
    return "no limit" if math.isinf(largest) else f"{largest:,.0f}"


def _digits(value: float | None) -> str:
    return units.NOTHING if value is None else units.digits(value)
