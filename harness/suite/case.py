"""A case: everything that decides what is measured, and the stable hash of it."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from harness.records import Record
from harness.shape import DTypeName
from harness.suite.points import GeneratePoint, KernelPoint, StackPoint, Workload

# Raised when the meaning of a stored number changes: old and new rows then never meet in a series.
DEFINITION_VERSION = 1

Backend = Literal["torch", "triton"]


class Choice(Record):
    """One technique in a slot, with the options that differ from their defaults."""

    technique: str
    options: dict[str, Any] = Field(default_factory=dict)


class StackSpec(Record):
    """Five slots: baselines stand where a suite names nothing.

    Only the architecture may be empty, until the stack meets a model: then it is the model's own
    (`harness.stack.completed`). `label` is what tables show; it is no part of the identity.
    """

    label: str
    architecture: tuple[Choice, ...]
    weights: Choice
    cache: Choice
    decoding: Choice
    scheduling: Choice

    @property
    def member_names(self) -> tuple[str, ...]:
        """What a family may call its member for this stack, the most special name first:
        `gqa(kv_heads=1)` is multi-query attention, whose model is an "mqa"."""
        names = [choice.technique for choice in self.architecture]
        if any(c.technique == "gqa" and c.options.get("kv_heads") == 1 for c in self.architecture):
            names.insert(0, "mqa")
        return tuple(names)


class Case(Record):
    """One point of a sweep's grid. Two equal cases have equal hashes, on any machine, for ever.

    A kernel's case has no stack, no model and no checkpoint.
    """

    stack: StackSpec | None
    model: str  # the member that was chosen, "zoo/small-gqa", never the family; kernels: ""
    checkpoint_hash: str | None  # None: seeded random weights
    workload: Workload
    backend: Backend = "torch"
    dtype: DTypeName = "float32"
    threads: PositiveInt = 1
    cuda_graph: bool = False
    cache_state: Literal["cold"] = "cold"
    definition_version: int = DEFINITION_VERSION

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the case's canonical JSON, without the stack's label and without defaults.

        A field that is added later with a default changes no hash, so that history goes on.
        """
        content = self.model_dump(
            mode="json", exclude={"stack": {"label"}}, exclude_defaults=True
        ) | {"kind": self.workload.kind, "definition_version": self.definition_version}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @model_validator(mode="after")
    def _stack_unless_kernel(self) -> Self:
        if (self.stack is None) != isinstance(self.workload, KernelPoint):
            raise ValueError("a case has a stack exactly when it is not a kernel's")
        if self.stack is not None and not self.stack.architecture:
            raise ValueError("a case's stack names its architecture")
        return self

    @property
    def label(self) -> str:
        """What tables call the thing that is compared: the stack's label, or the kernel's name."""
        if isinstance(self.workload, KernelPoint):
            return self.workload.kernel
        return self.composed.label

    @property
    def title(self) -> str:
        """A short name for people: what is compared, and at which point."""
        return f"{self.label} {self.workload.title}".rstrip()

    @property
    def composed(self) -> StackSpec:
        """The stack of a case that is not a kernel's."""
        assert self.stack is not None, f"{self.title} is a kernel's case"
        return self.stack

    @property
    def stacked(self) -> StackPoint:
        """The point of a case that runs a stack."""
        assert not isinstance(self.workload, KernelPoint), f"{self.title} is a kernel's case"
        return self.workload

    @property
    def generated(self) -> GeneratePoint:
        """The point of a `generate` case."""
        assert isinstance(self.workload, GeneratePoint), f"{self.title} generates nothing"
        return self.workload


class MeasureSettings(Record):
    """How long and how often a case is measured."""

    # The upper bounds are days of work: beyond them a value is a slip of the keyboard.
    rounds: PositiveInt = Field(3, le=1_000, description="processes a case is measured in")
    min_samples: PositiveInt = Field(
        20, le=1_000_000, description="decode steps a run takes at least"
    )
    max_seconds: float = Field(
        20.0, gt=0, le=86_400, description="measuring time of one run, at most"
    )
    precision: float = Field(
        0.02, gt=0, lt=1, description="half-width of the median's interval, relative, to stop at"
    )
    contended: Literal["keep", "invalid"] = Field(
        "keep",
        description="a run that was throttled, or whose cores or device others used: kept with a"
        " note, or tried again",
    )
    cuda_graph: bool = Field(False, description="capture decode steps in a CUDA graph")
    timeout_seconds: float = Field(
        300.0, gt=0, le=604_800, description="a run is killed after this"
    )


class GateSettings(Record):
    """Which correctness checks run. Turning one off is stored and shown."""

    numeric: bool = True
    exactness: bool = True
    plausibility: bool = True
