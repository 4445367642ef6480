"""How a worker process ended, and the run record that follows from it."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from harness.errors import UsageError
from harness.run import RunRecord, Status
from harness.store.admission import require_sound
from harness.worker.job import Job

# What is kept of a worker's output: enough for a traceback, small enough for every row.
TAIL_LINES = 20
TAIL_BYTES = 4096
# The interpreter's report of a fatal signal ends with every extension module on one line.
_NOISE = ("Extension modules:",)


@dataclass(frozen=True)
class Ending:
    """A finished worker process, as its parent saw it."""

    exit_code: int  # negative: the number of the signal that ended it, as in `subprocess`
    seconds: float
    output: bytes  # the end of standard output and error together
    timed_out: bool = False
    oom_kills: int = 0  # processes the kernel killed for memory meanwhile


def tail(output: bytes) -> str:
    """The last lines of a process's output, fit to be stored as text."""
    text = output[-TAIL_BYTES:].decode(errors="replace").replace("\0", "")
    lines = [line.rstrip() for line in text.splitlines()]
    kept = [line for line in lines if line and not line.startswith(_NOISE)]
    return "\n".join(kept[-TAIL_LINES:])


def record(job: Job, ending: Ending, answer: str | None, started_at: datetime) -> RunRecord:
    """The run of `job`: what the worker answered, or what became of it where it did not.

    Args:
        job: what was asked.
        ending: how the process ended.
        answer: the text of its run file; None when it left none.
        started_at: when the process was started, UTC.
    """
    if ending.timed_out:
        limit = job.measure.timeout_seconds
        return _failed(job, ending, started_at, "timeout", f"no result within {limit:g} s; killed")
    if ending.exit_code < 0:
        return _failed(job, ending, started_at, *_by_signal(ending))
    if ending.exit_code > 0:
        reason = f"the worker ended with exit code {ending.exit_code}"
        return _failed(job, ending, started_at, "crashed", reason)
    if answer is None:
        reason = "the worker ended with exit code 0 and left no result"
        return _failed(job, ending, started_at, "error", reason)
    try:
        run = RunRecord.model_validate_json(answer)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        reason = f"the worker's result cannot be read: {place}: {first['msg']}"
        return _failed(job, ending, started_at, "error", reason)
    if fault := _fault(job, run):
        return _failed(job, ending, started_at, "error", f"the worker's result is wrong: {fault}")
    if run.stderr_tail:
        return run
    return run.model_copy(update={"stderr_tail": tail(ending.output)})


def _by_signal(ending: Ending) -> tuple[Status, str]:
    number = -ending.exit_code
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    if number != signal.SIGKILL:
        return "crashed", f"the worker was ended by {name}"
    if ending.oom_kills:
        return "oom", "the kernel's out-of-memory killer ended the worker (SIGKILL)"
    return (
        "crashed",
        "the worker was ended by SIGKILL from outside; it may be the out-of-memory killer of a "
        "container, which this kernel's counters do not show",
    )


def _fault(job: Job, run: RunRecord) -> str | None:
    """What makes a readable result unfit to be stored; None when nothing does."""
    asked = (job.case.hash, job.round, job.order_slot, job.attempt)
    if (run.case_hash, run.round, run.order_slot, run.attempt) != asked:
        return "it answers another job"
    if run.status == "ok" and not run.metrics:
        return "its status is ok and it has no metric"
    try:
        require_sound(job.case, run, "measured")
    except UsageError as error:
        return str(error)
    return None


def _failed(
    job: Job, ending: Ending, started_at: datetime, status: Status, reason: str
) -> RunRecord:
    return RunRecord(
        case_hash=job.case.hash,
        status=status,
        reason=reason,
        round=job.round,
        order_slot=job.order_slot,
        attempt=job.attempt,
        started_at=started_at,
        seconds=ending.seconds,
        stderr_tail=tail(ending.output),
    )
