"""Run a job from end to end, and turn whatever happens into a record."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

import torch

from harness.errors import HarnessError, UnfitError
from harness.gates.verdict import failed
from harness.measure.trace import ClockError, ContendedError, MeasurementError
from harness.suite.case import KernelPoint
from harness.worker import kernel_run
from harness.worker.job import Job, RunRecord, Status
from harness.worker.notes import Notes
from harness.worker.stages import check_before, measure
from harness.worker.support import UnsupportedError, refuse

# What PyTorch's CPU allocator and CUDA libraries say in a plain RuntimeError.
_OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "ALLOC_FAILED", "not enough memory")


def execute(job: Job, *, timed: bool) -> RunRecord:
    """Gates, and when `timed` the measurement. Only KeyboardInterrupt and SystemExit get out."""
    notes = Notes(job)
    status, reason = _guarded(lambda: _attempt(job, notes, timed=timed), notes)
    return notes.record(status, reason)


def _attempt(job: Job, notes: Notes, *, timed: bool) -> None:
    refuse(job, os.environ, timed=timed)
    if isinstance(job.case.workload, KernelPoint):
        kernel_run.attempt(job, job.case.workload, notes, timed=timed)
        return
    ready = check_before(job, notes)
    if timed and not notes.failed:
        measure(ready, notes)


def _guarded(attempt: Callable[[], None], notes: Notes) -> tuple[Status, str | None]:
    """The status that an attempt ends in. A gate that failed decides before anything else."""
    try:
        attempt()
    except ClockError as error:
        notes.gates.append(failed("clock", "ns", str(error)))
    except MeasurementError as error:
        notes.gates.append(failed("trace", "", str(error)))
    except ContendedError as error:
        return "invalid", str(error)
    except (UnsupportedError, UnfitError) as error:
        return "unsupported", str(error)
    except HarnessError as error:
        return "error", str(error)
    except (MemoryError, torch.OutOfMemoryError) as error:
        return "oom", _sentence(error)
    except Exception as error:
        if isinstance(error, RuntimeError) and any(s in str(error) for s in _OUT_OF_MEMORY):
            return "oom", _sentence(error)
        # The parent keeps the end of stderr beside the row.
        traceback.print_exc()
        return "error", _sentence(error)
    if notes.failed:
        first = notes.failed[0]
        return "gate_failed", f"gate {first.name}: {first.detail}" if first.detail else first.name
    return "ok", None


def _sentence(error: BaseException) -> str:
    """The first line of an error, after its kind."""
    text = str(error).strip()
    first = text.splitlines()[0] if text else "no message"
    return f"{type(error).__name__}: {first}"
