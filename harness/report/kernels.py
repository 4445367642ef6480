"""Kernels by themselves, as tables: what each size takes, and how near its limits that is."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.results import Result
from harness.report import units
from harness.report.findings import Grid
from harness.suite.points import KernelPoint

_COLUMNS = (
    "kernel_time", "achieved_flops", "matrix_fraction", "achieved_bandwidth", "bandwidth_fraction",
    "intensity", "roofline_fraction",
)  # fmt: skip
_HEADER = (
    "sizes", "a call", "FLOP/s", "/ first's", "/ matrix", "bytes/s", "/ copy", "FLOP/B", "roofline",
)  # fmt: skip


def kernel_grids(results: Sequence[Result]) -> list[Grid]:
    """A table for each kernel under equal conditions, smaller sizes first."""
    grouped: dict[tuple[str, ...], list[Result]] = {}
    for result in sorted(results, key=_sizes):
        if result.value("kernel_time") is not None:
            case = result.case
            threads = f"{case.threads} thread{'s' * (case.threads > 1)}"
            key = (case.label, case.backend, case.dtype, threads, result.source)
            grouped.setdefault(key, []).append(result)
    return [
        Grid(
            title=f"Kernel {key[0]}: {', '.join(key[1:])}",
            header=_HEADER,
            rows=tuple(_row(result, members[0]) for result in members),
            note="/ first's: achieved FLOP/s against those of the first row; / matrix and / copy: "
            "shares of the device's measured rates",
        )
        for key, members in grouped.items()
    ]


def _sizes(result: Result) -> tuple[int, ...]:
    workload = result.case.workload
    return tuple(workload.sizes.values()) if isinstance(workload, KernelPoint) else ()


def _row(result: Result, first: Result) -> tuple[str, ...]:
    def cell(name: str) -> str:
        number = result.value(name)
        return units.NOTHING if number is None else units.value(name, number)

    time, rate, matrix, bandwidth, copy, intensity, fraction = map(cell, _COLUMNS)
    time = f"{time} {units.spread(result.metrics['kernel_time'])}".rstrip()
    mine, base = result.value("achieved_flops"), first.value("achieved_flops")
    times = f"{mine / base:.2f}x" if mine is not None and base else units.NOTHING
    sizes = result.case.workload.title
    return (sizes, time, rate, times, matrix, bandwidth, copy, intensity, fraction)
