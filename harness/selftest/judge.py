"""What came out of a trial, held to what must come out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.run import RunRecord
from harness.selftest.trials import Trial

_WRITTEN = 60  # characters of a reason that a table has room for


@dataclass(frozen=True)
class Verdict:
    """One trial's answer. The instrument told the truth when there is no fault."""

    trial: Trial
    found: str
    faults: tuple[str, ...]

    @property
    def true(self) -> bool:
        """Whether the instrument told the truth."""
        return not self.faults


def judge(trial: Trial, records: Sequence[RunRecord]) -> Verdict:
    """Judge the rows that a trial's case left, of which there must be exactly one."""
    if len(records) != 1:
        return Verdict(trial, f"{len(records)} rows", (f"{len(records)} rows instead of one",))
    [record] = records
    red = [gate.name for gate in record.gates if not gate.passed]
    faults: list[str] = []
    if record.status != trial.status:
        faults.append(f"the status is {record.status} and not {trial.status}")
    elif trial.gate is not None and not (red and red[0].startswith(trial.gate)):
        faults.append(f"the first red gate is {red[0] if red else 'none'}, not {trial.gate}")
    if trial.reason not in (record.reason or ""):
        faults.append(f"the reason does not say '{trial.reason}': {record.reason}")
    if record.status != "ok" and record.metrics:
        faults.append("a run that is not good carries metrics")
    if record.status != "ok" and not record.reason:
        faults.append("a run that is not good gives no reason")
    if not faults and record.status == "ok":
        faults += [fault for check in trial.checks for fault in check(record)]
    return Verdict(trial, _found(record, red), tuple(faults))


def _found(record: RunRecord, red: Sequence[str]) -> str:
    if red:
        return f"{record.status}, gate {red[0]}"
    if record.status in ("ok", "skipped") or not record.reason:
        return record.status
    reason = record.reason if len(record.reason) <= _WRITTEN else f"{record.reason[:_WRITTEN]}..."
    return f"{record.status}: {reason}"
