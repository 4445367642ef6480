"""What one case runs: a point for each kind of workload, with `kind` to tell them apart.

A new kind is a record here, its keys in `harness.suite.workloads`, and who runs it in
`harness.worker.execute`. All but the kernels' run a stack, and say what room its engine needs:
`slots` and `max_tokens`. `title` is a line for people.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from harness.records import Record


class GeneratePoint(Record):
    """B prompts of `prompt_tokens` tokens, `new_tokens` new tokens each."""

    kind: Literal["generate"] = "generate"
    batch: PositiveInt
    prompt_tokens: PositiveInt
    new_tokens: PositiveInt

    @property
    def title(self) -> str:
        """For a line: "B8 P128 N32"."""
        return f"B{self.batch} P{self.prompt_tokens} N{self.new_tokens}"

    @property
    def slots(self) -> int:
        """Sequences at once."""
        return self.batch

    @property
    def max_tokens(self) -> int:
        """The longest sequence, prompt and new tokens together."""
        return self.prompt_tokens + self.new_tokens


class KernelPoint(Record):
    """One kernel at one shape; `sizes` are numbers by the letters of the kernel's own docstring."""

    kind: Literal["kernel"] = "kernel"
    kernel: str
    sizes: dict[str, NonNegativeInt]

    def __hash__(self) -> int:
        return hash((self.kernel, *sorted(self.sizes.items())))

    @property
    def title(self) -> str:
        """For a line: "B8 D1024 F4096", without what is zero."""
        return " ".join(f"{name}{size}" for name, size in self.sizes.items() if size)


StackPoint = GeneratePoint
Workload = Annotated[GeneratePoint | KernelPoint, Field(discriminator="kind")]
