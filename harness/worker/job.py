"""The two files between a sweep and its worker: the job that goes in, the run that comes out."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from harness.hardware.ceilings import Ceilings as Ceilings
from harness.records import Record
from harness.suite.case import Case, GateSettings, MeasureSettings
from harness.suite.slo import Slo

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


class Job(Record):
    """One run to make: a case, how to measure it, and where in the sweep it stands."""

    format_version: int = FORMAT_VERSION
    case: Case
    measure: MeasureSettings
    gate: GateSettings
    seed: int  # the sweep's, which ordered its runs; nothing is drawn from it
    round: int
    order_slot: int
    attempt: int = 1
    device: str = "cpu"
    plugin_paths: tuple[str, ...] = ()
    ceilings: Ceilings | None = None
    slo: Slo | None = None  # what goodput asks of a request
    # "module:function" returning nanoseconds, for the self-test's lying clocks.
    clock: str | None = None


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
