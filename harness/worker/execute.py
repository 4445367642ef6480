"""Run a job from end to end, and turn whatever happens into a record."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

import torch

from harness.errors import HarnessError, UnfitError
from harness.gates.verdict import failed
from harness.measure.trace import ClockError, ContendedError, MeasurementError
from harness.run import RunRecord, Status
from harness.technique import load
from harness.worker.job import Job
from harness.worker.notes import Notes
from harness.worker.support import UnsupportedError, refuse

# Who runs each kind of workload, "module:function" called with (job, notes, timed=...): gates, and
# when `timed` what is measured, all into the notes.
_RUNS = {
    "generate": "harness.worker.stages:attempt",
    "quality": "harness.worker.quality_run:attempt",
    "kernel": "harness.worker.kernel_run:attempt",
    "serve": "harness.worker.serve_run:attempt",
}

# What PyTorch's CPU allocator and CUDA libraries say in a plain RuntimeError.
_OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "ALLOC_FAILED", "not enough memory")


def execute(job: Job, *, timed: bool) -> RunRecord:
    """Gates, and when `timed` the measurement. Only KeyboardInterrupt and SystemExit get out."""
    notes = Notes(job)
    status, reason = _guarded(lambda: _attempt(job, notes, timed=timed), notes)
    return notes.record(status, reason)


def _attempt(job: Job, notes: Notes, *, timed: bool) -> None:
    refuse(job, os.environ, timed=timed)
    run: Callable[..., None] = load(_RUNS[job.case.workload.kind])
    run(job, notes, timed=timed)


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
