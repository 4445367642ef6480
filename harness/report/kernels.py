"""Kernels by themselves, as tables: what each size takes, and how near its limits that is."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.results import Result
from harness.metrics import PEERS
from harness.report import units
from harness.report.findings import Grid
from harness.suite.points import KernelPoint

# What is predicted, FLOPs a byte, stands beside what was reached: narrow terminals cut the end off.
_COLUMNS = (
    "kernel_time", "intensity", "achieved_flops", "roofline_fraction", "matrix_fraction",
    "achieved_bandwidth", "bandwidth_fraction",
)  # fmt: skip
_HEADER = (
    "sizes", "a call", "FLOP/B", "FLOP/s", "/ first's", "roofline", "/ matrix", "bytes/s", "/ copy",
)  # fmt: skip


def kernel_grids(results: Sequence[Result]) -> list[Grid]:
    """A table for each kernel under equal conditions, smaller sizes first, and one of its peers."""
    grouped: dict[tuple[str, ...], list[Result]] = {}
    for result in sorted(results, key=_sizes):
        if result.value("kernel_time") is not None:
            case = result.case
            threads = f"{case.threads} thread{'s' * (case.threads > 1)}"
            key = (case.label, case.backend, case.dtype, threads, result.source)
            grouped.setdefault(key, []).append(result)
    grids = []
    for shared, members in grouped.items():
        grids.append(
            Grid(
                title=f"Kernel {shared[0]}: {', '.join(shared[1:])}",
                header=_HEADER,
                rows=tuple(_row(result, members[0]) for result in members),
                note="FLOP/B: predicted from the sizes; / first's: achieved FLOP/s against those "
                "of the first row; / matrix and / copy: shares of the device's measured rates",
            )
        )
        grids += _peers(", ".join(shared), members)
    return grids


def _peers(title: str, members: Sequence[Result]) -> list[Grid]:
    """How many times longer each peer takes than the kernel, where a case has any."""
    beside = [peer for peer in PEERS if any(r.value(f"speedup_{peer}") for r in members)]
    if not beside:
        return []
    rows = [
        (result.case.workload.title, *(_ratio(result, peer) for peer in beside))
        for result in members
        if any(f"speedup_{peer}" in result.metrics for peer in beside)
    ]
    return [
        Grid(
            title=f"Peers beside {title}",
            header=("sizes", *beside),
            rows=tuple(rows),
            note="; ".join(
                [
                    "how many times the kernel's time each takes, in turns in one process, over "
                    "several processes where there are more",
                    *_reasons(members),
                ]
            ),
        )
    ]


def _ratio(result: Result, peer: str) -> str:
    found = result.metrics.get(f"speedup_{peer}")
    if found is None or found.value is None:
        return units.NOTHING
    return units.times_better(found.value, found.ci_low, found.ci_high)


def _reasons(members: Sequence[Result]) -> list[str]:
    """Why peers are missing, each reason once."""
    told: dict[str, None] = {}
    for result in members:
        for peer in PEERS:
            found = result.metrics.get(f"speedup_{peer}")
            if found is not None and found.null_reason:
                told[f"no {peer}: {found.null_reason}"] = None
    return list(told)


def _sizes(result: Result) -> tuple[int, ...]:
    workload = result.case.workload
    return tuple(workload.sizes.values()) if isinstance(workload, KernelPoint) else ()


def _row(result: Result, first: Result) -> tuple[str, ...]:
    def cell(name: str) -> str:
        number = result.value(name)
        return units.NOTHING if number is None else units.value(name, number)

    time, intensity, rate, fraction, matrix, bandwidth, copy = map(cell, _COLUMNS)
    time = f"{time} {units.spread(result.metrics['kernel_time'])}".rstrip()
    mine, base = result.value("achieved_flops"), first.value("achieved_flops")
    times = f"{mine / base:.2f}x" if mine is not None and base else units.NOTHING
    sizes = result.case.workload.title
    return (sizes, time, intensity, rate, times, fraction, matrix, bandwidth, copy)
