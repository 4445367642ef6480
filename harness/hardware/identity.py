"""Who measured: the device, the software around it, and the code. Stored with every sweep.

Hardware is half of a series' key (case hash x hardware identity), so its hash holds only what a
new driver, a new library or a new calibration leaves alone. The environment is everything else that
may move a number: it is recorded as epochs and never enters the key.
"""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import AwareDatetime, Field, NonNegativeInt, PositiveInt, model_validator

from harness.records import Record


class HardwareRow(Record):
    """A device to measure on, a catalogue entry to predict for, or a target to compile for."""

    kind: Literal["cpu", "cuda", "target"]
    name: str  # "NVIDIA H100 80GB HBM3"; of a CPU its model name
    arch: str  # "sm_90", "x86_64"
    memory_bytes: NonNegativeInt
    count: PositiveInt  # devices, or cores the process may use
    cpu: str  # the host's CPU model, of a GPU too: it launches the kernels
    catalogue_name: str | None = None
    calibration: dict[str, Any] | None = None  # measured ceilings, the latest

    @property
    def profile(self) -> Literal["cpu", "cuda"]:
        """The profile of a suite that is for this device; nothing runs on a target."""
        assert self.kind != "target", f"{self.name} is only compiled for"
        return self.kind

    @cached_property
    def identity_hash(self) -> str:
        """SHA-256 over kind, name, arch, memory, count and CPU; calibration is no identity."""
        return _sha256(self.model_dump(mode="json", exclude={"catalogue_name", "calibration"}))


class EnvironmentRow(Record):
    """Versions and settings around the code; a change of any of them starts an epoch."""

    driver: str | None = None
    cuda: str | None = None
    torch: str | None = None
    triton: str | None = None
    python: str
    os: str
    container: str | None = None
    power_limit_w: float | None = None
    clocks: dict[str, Any] = Field(default_factory=dict)
    variables: dict[str, str] = Field(default_factory=dict)

    @cached_property
    def hash(self) -> str:
        """SHA-256 over every field."""
        return _sha256(self.model_dump(mode="json"))


class RevisionRow(Record):
    """The code that was measured. `diff_hash` is "" exactly when the tree was clean."""

    repo: str
    commit: str
    parent: str | None = None  # None: the first commit
    branch: str | None = None  # None: a detached head
    committed_at: AwareDatetime | None = None
    dirty: bool = False
    diff_hash: str = ""  # SHA-256 of the uncommitted changes

    @model_validator(mode="after")
    def _diff_when_dirty(self) -> Self:
        if self.dirty != bool(self.diff_hash):
            raise ValueError("diff_hash is given exactly when the tree is dirty")
        return self


def _sha256(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
