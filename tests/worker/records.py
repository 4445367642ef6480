"""What tests of whole runs ask of a record, and the types of their fixtures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.run import RunRecord
from harness.worker.job import Job

MakeJob = Callable[..., Job]
Wrap = Callable[[Callable[[Any], Any]], None]


def red(record: RunRecord) -> set[str]:
    return {gate.name for gate in record.gates if not gate.passed}


def value(record: RunRecord, name: str) -> float | None:
    return next(metric.value for metric in record.metrics if metric.name == name)


def assert_refused(record: RunRecord, *gates: str) -> None:
    """Status, evidence, and not one number of performance."""
    assert record.status == "gate_failed", record.reason
    assert set(gates) <= red(record), red(record)
    assert record.metrics == []
    assert record.samples == []
    assert record.reason
