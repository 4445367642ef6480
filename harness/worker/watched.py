"""What the sensors told of a run: stored beside it, flagged, and whether to try it once more."""

from __future__ import annotations

from harness.measure import sensed, telemetry
from harness.measure.disturbance import flags, passing
from harness.measure.watch import Seen
from harness.worker.job import Job
from harness.worker.notes import Notes


def note(notes: Notes, job: Job, seen: Seen) -> str | None:
    """Store what the sensors told and what disturbed the run; why another try may be better."""
    told = sensed.told(seen)
    found = flags(told)
    notes.telemetry["device"] = told
    waited = None
    if job.device == "cpu":
        waited = telemetry.contention(notes.telemetry["timed"], job.case.threads)
    told_flags = [*([waited] if waited else []), *(flag.says for flag in found)]
    if told_flags:
        notes.telemetry["flags"] = told_flags
    return "; ".join(filter(None, (waited, passing(found)))) or None
