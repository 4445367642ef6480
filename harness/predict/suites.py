"""A whole suite predicted for devices: its grid as arrays, one call a stack, dtype and device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness import stack as stacks
from harness.errors import UsageError
from harness.hardware.estimate import kernel_cost, kernel_queries, kernel_width
from harness.model import source as models
from harness.predict.forward import BOUNDS, forward
from harness.predict.target import Target
from harness.predict.workload import Prediction, generate
from harness.shape import DTYPE_BYTES, DTypeName
from harness.suite.case import StackSpec
from harness.suite.grid import grid
from harness.suite.kernels import KernelWorkload
from harness.suite.planning import kernel_points
from harness.suite.points import KernelPoint
from harness.suite.schema import Suite
from harness.suite.workloads import GenerateWorkload

_SIZES = ("batch", "prompt_tokens", "new_tokens")


@dataclass(frozen=True)
class Block:
    """One stack in one dtype on one device: its points [n, 3] as (B, P, N), and the prediction.

    `refused` says why there is none: a stack that does not fit its model, a dtype that the device
    does not have.
    """

    stack: str
    model: str
    places: int  # of the model: a longer sequence it cannot hold
    dtype: str
    target: Target
    points: np.ndarray
    prediction: Prediction | None
    refused: str | None = None


@dataclass(frozen=True)
class KernelPrediction:
    """One kernel at one shape on one device: seconds of a call, and what it moves and computes."""

    point: KernelPoint
    dtype: str
    target: Target
    seconds: float
    flops: float
    moved_bytes: float
    binds: str


def blocks(suite: Suite, targets: Sequence[Target]) -> Iterator[Block]:
    """Predict a suite whose profile is laid over it, stack by stack in the suite's order.

    Raises:
        UsageError: no model is named, a model is not found, or nothing is left of the grid.
    """
    if not suite.model:
        raise UsageError(f"{suite.document.name} names no model for these devices; --set model=...")
    if not isinstance(suite.workload, GenerateWorkload):
        raise UsageError(
            f"{suite.document.place(('workload', 'kind'))}: a {suite.workload.kind} workload is "
            "only measured; harness predict takes generate and kernel"
        )
    built = grid(suite)
    keys = list(built.axes)
    wanted = [keys.index(name) for name in _SIZES]
    grouped: dict[tuple[str, str, DTypeName], dict[tuple[int, ...], None]] = {}
    for point in built.points():
        label, model, dtype = (point[keys.index(name)] for name in ("stack", "model", "dtype"))
        key = (label, model, dtype)
        # Backend and threads are the machine's: what differs in them alone is one prediction.
        grouped.setdefault(key, {})[tuple(point[i] for i in wanted)] = None
    if not grouped:
        raise UsageError(f"{suite.document.name}: exclude takes out every point of the grid")
    for (label, model, dtype), found in grouped.items():
        points = np.array(list(found), dtype=np.int64)
        yield from _blocks(model, built.stacks[label], dtype, points, targets)


def kernels(suite: Suite, targets: Sequence[Target]) -> Iterator[KernelPrediction]:
    """Predict a suite of kernels: each shape in each dtype on each device."""
    assert isinstance(suite.workload, KernelWorkload)
    for target in targets:
        for dtype in suite.dtype:
            rates = target.rates_in(dtype)
            for point in kernel_points(suite):
                work = kernel_cost(point, dtype)
                # Operands come from memory: calls take turns on sets that leave the caches.
                queries, width = kernel_queries(point), kernel_width(point)
                found = forward(work, rates, DTYPE_BYTES[dtype], queries=queries, width=width)
                yield KernelPrediction(
                    point, dtype, target, float(found.seconds), work.flops, work.bytes,
                    BOUNDS[int(found.binds)],
                )  # fmt: skip


def _blocks(
    model: str, spec: StackSpec, dtype: DTypeName, points: np.ndarray, targets: Sequence[Target]
) -> Iterator[Block]:
    source = models.find(model, spec.member_names)
    spec = stacks.completed(spec, source)
    B, P, N = (points[:, i].astype(float) for i in range(3))
    for target in targets:
        prediction = refused = None
        try:
            plan = stacks.resolve(
                spec,
                source,
                dtype=dtype,
                backend="torch",
                slots=1,
                # The shortest: what is longer than the model's places is told point by point.
                max_tokens=int((P + N).min()),
            )
            prediction = generate(plan, stacks.techniques(spec), B, P, N, target)
        except UsageError as error:
            refused = str(error)
        places = source.shape.max_len
        yield Block(spec.label, source.name, places, dtype, target, points, prediction, refused)
