"""The `kernel` workload: kernels at listed sizes, without a model or a stack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Annotated, Literal

from pydantic import Field

from harness import registry
from harness.errors import UsageError, unknown
from harness.records import Record
from harness.suite.axes import MAX_TOKENS, Axis
from harness.suite.points import KernelPoint

# The peer that every kernel has: its own torch backend.
OWN = "eager"

Size = Annotated[int, Field(ge=0, le=MAX_TOKENS)]


class KernelShapes(Record):
    """One kernel and the product of its sizes."""

    kernel: str = Field(description="a name of `harness list kernels`")
    sizes: dict[str, Axis[Size]] = Field(
        min_length=1, description="by the letters of the kernel, B: [1, 8], one or several each"
    )
    peers: Axis[str] = Field(
        (), description="who else is timed in turns with it: flash, cudnn, flex, compiled, eager"
    )


class KernelWorkload(Record):
    """Kernels by themselves, each at every combination of its sizes."""

    kind: Literal["kernel"]
    shapes: tuple[KernelShapes, ...] = Field(min_length=1, max_length=64)

    def points(self) -> tuple[KernelPoint, ...]:
        """Every shape, kernels as listed; a kernel's last size varies fastest.

        UsageError for an unknown kernel or peer, an unknown or missing size, a shape that stands
        twice.
        """
        points = [point for shapes in self.shapes for point in _points(shapes)]
        for i, point in enumerate(points):
            if point in points[:i]:
                raise UsageError(f"the kernel shape '{point.kernel} {point.title}' stands twice")
        return tuple(points)


def _points(shapes: KernelShapes) -> Iterator[KernelPoint]:
    known = _sizes(shapes.kernel)
    peers = registry.kernel(shapes.kernel).peers
    for name in shapes.peers:
        if name not in (choices := (*(peers.names if peers else ()), OWN)):
            raise unknown(f"peer of kernel '{shapes.kernel}'", name, choices)
    for name in shapes.sizes:
        if name not in known:
            raise unknown(f"size of kernel '{shapes.kernel}'", name, known)
    axes = []
    for name, default in known.items():
        given = shapes.sizes.get(name, () if default is None else (default,))
        if not given:
            raise UsageError(f"kernel '{shapes.kernel}' needs a size {name}")
        axes.append(given)
    for values in product(*axes):
        sizes = dict(zip(known, values, strict=True))
        yield KernelPoint(kernel=shapes.kernel, sizes=sizes, peers=shapes.peers)


def _sizes(kernel: str) -> Mapping[str, int | None]:
    """The letters of a kernel's shapes; 0 where a shape may leave one out, else None."""
    shapes = [shape for listed in registry.kernel(kernel).shapes.values() for shape in listed]
    optional = {name for shape in shapes for name, size in shape.items() if size == 0}
    return {name: 0 if name in optional else None for name in shapes[0]}
