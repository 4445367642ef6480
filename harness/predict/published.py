"""The published measurements that are shipped, and the constants fitted on them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from harness.hardware.catalogue import Device
from harness.predict.efficiency import Efficiency, Link
from harness.predict.fitting import log_errors, minimise
from harness.predict.products import Array, Rates, product_seconds

_DATA = Path(__file__).with_name("data")
_WIDTH, _FF = 4096, 11008  # of Llama-2-7B
OPERATORS = ("qkv", "out", "gate_up", "down")
DEGREES = (1, 2, 4, 8)
# Where the fit begins: shares as published kernels reach them, a launch of some microseconds.
_START = (0.75, 0.8, 3.0, 4.0)
_SIZE = 2  # bytes of a float16


@dataclass(frozen=True)
class Table:
    """Times of matrix products, one an entry."""

    operator: np.ndarray
    degree: np.ndarray
    rows: Array
    inner: Array
    outer: Array
    seconds: Array

    def where(self, mask: np.ndarray) -> Table:
        """The entries that a mask keeps."""
        return Table(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))


def shape(operator: str, degree: int) -> tuple[int, int]:
    """[inner, outer] of an operator's weight on one of `degree` devices."""
    return {
        "qkv": (_WIDTH, 3 * _WIDTH // degree),
        "out": (_WIDTH // degree, _WIDTH),
        "gate_up": (_WIDTH, 2 * _FF // degree),
        "down": (_FF // degree, _WIDTH),
    }[operator]


# Files of times by the catalogue's name of the device. Constants are fitted on the first alone.
TABLES = {"a100-80": "a100_80_llama_2_7b.csv", "a40": "a40_llama_2_7b.csv"}


@cache
def linear_layers(device: str = "a100-80") -> Table:
    """The linear layers of Llama-2-7B, 1 to 4096 rows of activations, tensor-parallel 1 to 8."""
    entries = []
    with (_DATA / TABLES[device]).open(newline="") as file:
        for line in csv.DictReader(file):
            degree, rows = int(line["tensor_parallel"]), int(line["tokens"])
            for name in OPERATORS:
                inner, outer = shape(name, degree)
                entries.append((name, degree, rows, inner, outer, float(line[f"{name}_us"]) / 1e6))
    columns = list(zip(*entries, strict=True))
    numbers = [np.array(column, dtype=float) for column in columns[2:]]
    return Table(np.array(columns[0]), np.array(columns[1]), *numbers)


def predicted(table: Table, device: Device, constants: Efficiency) -> Array:
    """Seconds of every entry by the model, launch included."""
    rates = Rates(
        device.flops_per_s("float16"),
        device.bandwidth_bytes_per_s,
        device.multiprocessors,
        constants,
    )
    seconds = np.zeros_like(table.seconds)
    for name in OPERATORS:
        for degree in np.unique(table.degree):
            mask = (table.operator == name) & (table.degree == degree)
            if mask.any():
                inner, outer = shape(name, int(degree))
                seconds[mask] = product_seconds(table.rows[mask], inner, outer, rates, _SIZE)
    return seconds + constants.launch_seconds


def roofline(table: Table, device: Device) -> Array:
    """Seconds of every entry by the plain roofline: the larger of FLOPs / peak, bytes / bandwidth.

    What headlines of cost models are compared with; it has no constant.
    """
    rows, inner, outer = table.rows, table.inner, table.outer
    moved = (rows * inner + inner * outer + rows * outer) * _SIZE
    flops = 2 * rows * inner * outer
    return np.maximum(flops / device.flops_per_s("float16"), moved / device.bandwidth_bytes_per_s)


def fit(table: Table, device: Device, source: str, every: int = 4) -> Efficiency:
    """The four constants that explain a table best: the least mean of |log error|.

    Args:
        table: measured times.
        device: its datasheet.
        source: what the constants are to be called.
        every: fit at every so manieth number of rows; neighbours say the same.
    """
    sample = table.where(np.isin(table.rows, np.unique(table.rows)[::every]))

    def constants(values: Sequence[float], spread: float = 0.0) -> Efficiency:
        matrix, memory, operands, launch_us = (float(value) for value in values)
        return Efficiency(
            matrix=matrix,
            memory=memory,
            operands=operands,
            launch_seconds=launch_us * 1e-6,
            spread=spread,
            source=source,
        )

    def badness(values: Sequence[float]) -> float:
        errors = log_errors(predicted(sample, device, constants(values)), sample.seconds)
        return float(np.abs(errors).mean())

    best = minimise(badness, _START)
    errors = log_errors(predicted(table, device, constants(best)), table.seconds)
    return constants(best, float(np.sqrt((errors**2).mean())))


def fit_link(device: Device, source: str) -> Link:
    """The two constants of all-reduces within one machine, over the shipped times."""
    assert device.link_gb_s is not None
    link_bytes_per_s = device.link_gb_s * 1e9
    devices, size, seconds = all_reduces()
    ring = 2 * (devices - 1) / devices * size / link_bytes_per_s

    def badness(values: Sequence[float]) -> float:
        return float(np.abs(log_errors(values[0] * 1e-6 + ring / values[1], seconds)).mean())

    us, share = minimise(badness, (30.0, 0.6))
    return Link(seconds=us * 1e-6, share=share, source=source)


@cache
def all_reduces() -> tuple[Array, Array, Array]:
    """Devices, bytes and seconds of all-reduces within one DGX A100."""
    with (_DATA / "a100_80_all_reduce.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    devices, size, us = (
        np.array([float(line[name]) for line in lines]) for name in ("devices", "bytes", "us")
    )
    return devices, size, us / 1e6
