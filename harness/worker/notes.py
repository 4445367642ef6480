"""What a run has found so far, so that a failure half-way keeps the evidence."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from harness.run import GateResult, MetricValue, RunRecord, SampleSet, Status
from harness.worker.job import Job


@dataclass
class Notes:
    """Filled in as a run goes on; turned into a record once, at its end."""

    job: Job
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    compile_seconds: float | None = None
    implementations: dict[str, str] = field(default_factory=dict)
    telemetry: dict[str, Any] = field(default_factory=dict)
    gates: list[GateResult] = field(default_factory=list)
    metrics: list[MetricValue] = field(default_factory=list)
    samples: list[SampleSet] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    @property
    def failed(self) -> list[GateResult]:
        """Gates that did not pass."""
        return [gate for gate in self.gates if not gate.passed]

    def record(self, status: Status, reason: str | None) -> RunRecord:
        """The record of a run. Metrics and samples are left out unless it is "ok"."""
        good = status == "ok"
        return RunRecord(
            case_hash=self.job.case.hash,
            status=status,
            reason=reason,
            round=self.job.round,
            order_slot=self.job.order_slot,
            attempt=self.job.attempt,
            started_at=self.started_at,
            seconds=time.monotonic() - self._began,
            compile_seconds=self.compile_seconds,
            implementations=self.implementations,
            telemetry=self.telemetry,
            metrics=self.metrics if good else [],
            samples=self.samples if good else [],
            gates=self.gates,
        )
