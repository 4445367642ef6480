"""A kernel at one shape, and what is right for its inputs by its reference in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.gates.tolerance import check_output
from harness.gates.verdict import failed
from harness.kernel import KernelSpec, outputs
from harness.run import GateResult
from harness.suite.points import KernelPoint
from harness.technique import load
from harness.worker.job import Job


@dataclass(frozen=True)
class Kernel:
    """A kernel at one shape, and where it runs."""

    job: Job
    point: KernelPoint
    spec: KernelSpec
    call: Callable[..., Any]

    def inputs(self, number: int, dtype: torch.dtype) -> Any:
        """Inputs number so and so of this run: no two of a case alike, nights alike.

        Drawn where the kernel runs: at published sizes a processor would take minutes.
        """
        generator = torch.Generator(self.job.device).manual_seed(self.job.round * 1000 + number)
        return load(self.spec.inputs)(self.point.sizes, dtype, generator, self.job.device)

    def right(self, number: int, dtype: torch.dtype) -> Right:
        """What is right for those inputs, worked out where the kernel runs.

        On the same inputs drawn anew: a call may have written to its own, where it should or where
        it should not.
        """
        return Right.of(self.spec, self.inputs(number, dtype))


@dataclass(frozen=True)
class Right:
    """The reference's outputs in float64 and in the timed dtype."""

    exact: tuple[Tensor, ...]
    trusted: tuple[Tensor, ...]

    @classmethod
    def of(cls, spec: KernelSpec, inputs: Any) -> Right:
        """What the kernel's reference gives for these inputs, which it leaves as they are."""
        reference = load(spec.reference)
        exact = outputs(reference(*map(_widened, inputs)))
        return cls(exact, outputs(reference(*inputs)))

    def judge(self, returned: Any, suffix: str = "") -> list[GateResult]:
        """Every output of a call held to the reference's."""
        given = outputs(returned)
        if len(given) != len(self.exact):
            told = f"{len(given)} outputs, the reference has {len(self.exact)}"
            return [failed(f"numeric{suffix}", "", told)]
        found = []
        for i, (output, low, high) in enumerate(zip(given, self.trusted, self.exact, strict=True)):
            name = f"numeric{suffix}" if i == 0 else f"numeric_output{i}{suffix}"
            found += check_output(output, low, high, name=name)
        return found


def _widened(value: Any) -> Any:
    floating = isinstance(value, Tensor) and value.is_floating_point()
    return value.double() if floating else value
