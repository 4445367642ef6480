"""What a run comes to: one case in one process, as the worker writes it and the store keeps it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from harness.records import Record

FORMAT_VERSION = 1

Status = Literal[
    "ok",
    "gate_failed",
    "oom",
    "oom_predicted",
    "timeout",
    "crashed",
    "error",
    "invalid",
    "unsupported",
    "skipped",
    "predicted",
]


class MetricValue(Record):
    """One number of one run. `value` is None exactly when `null_reason` says why."""

    name: str
    value: float | None
    null_reason: str | None = None
    n: int = 0
    ci_low: float | None = None
    ci_high: float | None = None


class SampleSet(Record):
    """Raw samples of one metric, as integers of its unit."""

    metric: str
    unit: str
    values: list[int]


class GateResult(Record):
    """What one check saw. `passed` is `observed <= bound`, so that NaN fails."""

    name: str
    passed: bool
    observed: float | None
    bound: float | None
    unit: str
    detail: str = ""


class RunRecord(Record):
    """One case in one process. Metrics are present only when the status is "ok"."""

    format_version: int = FORMAT_VERSION
    case_hash: str
    status: Status
    reason: str | None = None
    round: int
    order_slot: int
    attempt: int = 1
    started_at: datetime  # UTC, aware
    seconds: float
    compile_seconds: float | None = None  # None: nothing is compiled, as in eager PyTorch
    implementations: dict[str, str] = Field(default_factory=dict)
    telemetry: dict[str, Any] = Field(default_factory=dict)
    stderr_tail: str = ""
    metrics: list[MetricValue] = Field(default_factory=list)
    samples: list[SampleSet] = Field(default_factory=list)
    gates: list[GateResult] = Field(default_factory=list)
