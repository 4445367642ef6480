"""The `workload` of a suite: a record of keys for each kind.

A kind that runs a stack has `axes`, the values to multiply, and `point`, the case's workload at one
value of each. `grid.py` reads no more of it. Kernels, which have no stack, are planned apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from harness.records import Record
from harness.suite.axes import Axis, Batch, Tokens
from harness.suite.kernels import KernelWorkload
from harness.suite.points import GeneratePoint
from harness.suite.quality import QualityWorkload
from harness.suite.serving import ServeWorkload


class GenerateWorkload(Record):
    """B prompts of P tokens and N new tokens each; the end of a sequence is ignored."""

    kind: Literal["generate"]
    batch: Axis[Batch] = Field(description="B, prompts at once")
    prompt_tokens: Axis[Tokens] = Field(description="P, tokens of each prompt")
    new_tokens: Axis[Tokens] = Field(description="N, tokens to generate for each prompt")

    def axes(self) -> dict[str, tuple[int, ...]]:
        """The values to multiply, by key; the last key varies fastest."""
        return {
            "batch": self.batch,
            "prompt_tokens": self.prompt_tokens,
            "new_tokens": self.new_tokens,
        }

    def point(self, values: Mapping[str, Any]) -> GeneratePoint:
        """The point with one value for each of the axes."""
        return GeneratePoint(
            batch=values["batch"],
            prompt_tokens=values["prompt_tokens"],
            new_tokens=values["new_tokens"],
        )


WORKLOADS = (GenerateWorkload, ServeWorkload, QualityWorkload, KernelWorkload)
Workload = Annotated[
    GenerateWorkload | ServeWorkload | QualityWorkload | KernelWorkload,
    Field(discriminator="kind"),
]
