"""Records to rows and back. What goes in comes out equal; a row that cannot is named."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from pydantic import ValidationError

from harness.errors import UsageError
from harness.hardware.ceilings import InForce
from harness.hardware.identity import EnvironmentRow, HardwareRow, RevisionRow
from harness.run import GateResult, MetricValue, RunRecord, SampleSet
from harness.store import models
from harness.store.codec import CODEC, decode, encode
from harness.store.rows import SweepRow
from harness.suite.case import Case, Choice, StackSpec
from harness.technique import BASELINES, Slot

_CASE_FIELDS = (
    "model",
    "checkpoint_hash",
    "workload",
    "backend",
    "dtype",
    "threads",
    "cuda_graph",
    "cache_state",
    "definition_version",
)
_RUN_FIELDS = (
    "round",
    "order_slot",
    "attempt",
    "format_version",
    "status",
    "reason",
    "started_at",
    "seconds",
    "compile_seconds",
    "implementations",
    "telemetry",
    "stderr_tail",
)
_METRIC_FIELDS = ("name", "value", "null_reason", "n", "ci_low", "ci_high")
_GATE_FIELDS = ("name", "passed", "observed", "bound", "unit", "detail")


def stack_name(stack: StackSpec) -> str:
    """Technique names joined by "+": the architecture, and every other slot not at its baseline."""
    names = [choice.technique for choice in stack.architecture]
    for slot in (Slot.WEIGHTS, Slot.CACHE, Slot.DECODING, Slot.SCHEDULING):
        choice: Choice = getattr(stack, slot.value)
        if choice.technique != BASELINES[slot]:
            names.append(choice.technique)
    return "+".join(names)


def case_values(case: Case) -> dict[str, Any]:
    """Columns of a case, without its hash."""
    content = case.model_dump(mode="json", exclude={"stack"})
    if case.stack is None:
        return {"stack": None, "options": {}, **content}
    options = case.stack.model_dump(mode="json", exclude={"label"})
    return {"stack": stack_name(case.stack), "options": options, **content}


def case_of(row: models.Case, label: str) -> Case:
    """The case as it was planned, under the label that a sweep gave its stack.

    Raises:
        UsageError: the row does not give its stored hash, so it is not what was measured.
    """
    content = {name: getattr(row, name) for name in _CASE_FIELDS}
    where = f"row {row.id} of table 'case' ({row.hash[:12]})"
    try:
        stack = {"label": label, **row.options} if row.stack is not None else None
        case = Case.model_validate({"stack": stack, **content})
    except ValidationError as error:
        raise UsageError(f"{where} is no case this harness knows: {_first(error)}") from None
    if case.hash != row.hash:
        raise UsageError(
            f"{where} gives the hash {case.hash[:12]}: it was edited, or another harness wrote it"
        )
    return case


def run_values(record: RunRecord) -> dict[str, Any]:
    """Columns of a run, without its keys to other tables."""
    values = {name: getattr(record, name) for name in _RUN_FIELDS}
    return values | {
        "reason": None if record.reason is None else _text(record.reason),
        "stderr_tail": _text(record.stderr_tail),
    }


def metric_values(metric: MetricValue) -> dict[str, Any]:
    """Columns of a metric, without its run."""
    return {name: getattr(metric, name) for name in _METRIC_FIELDS}


def samples_values(samples: SampleSet) -> dict[str, Any]:
    """Columns of one metric's samples, without their run."""
    return {
        "metric": samples.metric,
        "unit": samples.unit,
        "codec": CODEC,
        "n": len(samples.values),
        "data": encode(samples.values),
    }


def gate_values(gate: GateResult) -> dict[str, Any]:
    """Columns of a gate, without its run.

    A gate may well observe NaN. SQLite would store that as NULL without a word, so it becomes None
    here and the detail says what was seen.
    """
    values = {name: getattr(gate, name) for name in _GATE_FIELDS}
    values["detail"] = _text(gate.detail)
    for name in ("observed", "bound"):
        number = values[name]
        if number is not None and not isfinite(number):
            values[name] = None
            values["detail"] = "; ".join(filter(None, (values["detail"], f"{name} was {number}")))
    return values


def run_of(row: models.Run) -> RunRecord:
    """The run as it was saved, with its metrics, samples and gates in their order."""
    content: dict[str, Any] = {name: getattr(row, name) for name in _RUN_FIELDS}
    try:
        return RunRecord(
            case_hash=row.case.hash,
            metrics=[MetricValue(**_fields(m, _METRIC_FIELDS)) for m in row.metrics],
            samples=[
                SampleSet(metric=s.metric, unit=s.unit, values=decode(s.data, s.codec))
                for s in row.samples
            ],
            gates=[GateResult(**_fields(g, _GATE_FIELDS)) for g in row.gates],
            **content,
        )
    except (ValidationError, UsageError) as error:
        reason = _first(error) if isinstance(error, ValidationError) else str(error)
        raise UsageError(f"run {row.id} cannot be read: {reason}") from None


def sweep_of(row: models.Sweep, runs: int) -> SweepRow:
    """The sweep with the records of who measured."""
    plain = ("id", "uid", "suite", "suite_hash", "suite_text", "seed", "started_at")
    try:
        return SweepRow(
            **_fields(row, (*plain, "ended_at", "status")),
            argv=tuple(row.argv),
            ceilings=None if row.ceilings is None else InForce.model_validate(row.ceilings),
            hardware=hardware_of(row.hardware),
            environment=EnvironmentRow(**_fields(row.environment, EnvironmentRow.model_fields)),
            revision=row.revision
            and RevisionRow(**_fields(row.revision, RevisionRow.model_fields)),
            runs=runs,
        )
    except ValidationError as error:
        raise UsageError(f"sweep {row.id} cannot be read: {_first(error)}") from None


def hardware_of(row: models.Hardware) -> HardwareRow:
    """The device as it was stored, with its latest calibration."""
    return HardwareRow(**_fields(row, HardwareRow.model_fields))


def _fields(row: object, names: tuple[str, ...] | Mapping[str, object]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def _text(text: str) -> str:
    """The same text without NUL, which PostgreSQL does not store; a crash may print some."""
    return text.replace("\0", "\ufffd")


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
