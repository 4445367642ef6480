"""What the store refuses to keep: numbers that no reader could trust."""

from __future__ import annotations

import json
from math import isfinite

from harness.errors import UsageError
from harness.run import MetricValue, RunRecord
from harness.store.rows import Source
from harness.suite.case import Case

# Statuses whose runs may carry metrics; of any other the output was wrong, absent or disturbed.
_WITH_METRICS = ("ok", "predicted")


def require_sound(case: Case, record: RunRecord, source: Source) -> None:
    """Raise UsageError with the reason why this run may not be stored; return when it may."""
    reason = _fault_of_run(case, record, source) or _fault_of_numbers(record)
    if reason is not None:
        raise UsageError(f"the run of {case.title}, round {record.round}, is refused: {reason}")


def _fault_of_run(case: Case, record: RunRecord, source: Source) -> str | None:
    if record.case_hash != case.hash:
        return f"its case_hash {record.case_hash[:12]} is not the case's {case.hash[:12]}"
    if record.started_at.tzinfo is None:
        return f"started_at {record.started_at.isoformat()} has no time zone; give UTC"
    if record.metrics and record.status not in _WITH_METRICS:
        return f"a run with status '{record.status}' may carry no metric, and has " + ", ".join(
            metric.name for metric in record.metrics
        )
    # A computed number must never pass for a measured one, nor the reverse.
    if (record.status == "predicted" and source != "predicted") or (
        record.status == "ok" and source == "predicted"
    ):
        return f"status '{record.status}' does not go with source '{source}'"
    return None


def _fault_of_numbers(record: RunRecord) -> str | None:
    for kind, names in (
        ("metric", [metric.name for metric in record.metrics]),
        ("samples of metric", [samples.metric for samples in record.samples]),
    ):
        for name in names:
            if names.count(name) > 1:
                return f"{kind} '{name}' is there {names.count(name)} times"
    for metric in record.metrics:
        fault = _fault_of_metric(metric)
        if fault is not None:
            return f"metric '{metric.name}' {fault}"
    for samples in record.samples:
        if any(not -(2**63) <= value < 2**63 for value in samples.values):
            return f"a sample of '{samples.metric}' does not fit in 64 bits"
    for name, seconds in (("seconds", record.seconds), ("compile", record.compile_seconds)):
        if seconds is not None and not isfinite(seconds):
            return f"its {name} time is {seconds}"
    try:
        json.dumps(record.telemetry, allow_nan=False)
    except (TypeError, ValueError) as error:
        return f"its telemetry is no JSON: {error}"
    return None


def _fault_of_metric(metric: MetricValue) -> str | None:
    if (metric.value is None) != (metric.null_reason is not None):
        if metric.value is None:
            return "is undefined without a null_reason"
        return f"has the value {metric.value} and the null_reason '{metric.null_reason}'"
    for number in (metric.value, metric.ci_low, metric.ci_high):
        if number is not None and not isfinite(number):
            return f"is {number}; an undefined number is None with a null_reason"
    return None
