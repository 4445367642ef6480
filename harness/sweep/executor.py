"""Where runs are made. An executor takes a job and gives a run record, whatever becomes of it."""

from __future__ import annotations

import os
import resource
import secrets
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from harness.errors import InfrastructureError
from harness.run import RunRecord
from harness.sweep.children import MARK, adopt_orphans, kill_escaped, kill_group
from harness.sweep.ending import TAIL_BYTES, Ending, record
from harness.sweep.interruption import Interruption, StopRequestedError
from harness.sweep.memory import oom_kills
from harness.worker.job import Job

# -P: the folder of the checkout is not searched for imports (house style part 2).
# faulthandler: a worker that hangs or breaks says where, in the last lines of its output.
WORKER = (sys.executable, "-P", "-X", "faulthandler", "-m", "harness.worker")

# Read by OpenMP, MKL, OpenBLAS and numexpr when they are loaded, hence set before the start.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)

_LAST_WORDS_S = 2.0  # for a hanging worker to print its stack before it is killed
_DEATH_S = 30.0  # a process still there so long after SIGKILL is stuck in a driver
_CHUNK_BYTES = 1 << 16
_PIPE_BYTES = 1 << 20  # the most a pipe holds, pipe(7); an escaped process could fill it for ever


class Executor(Protocol):
    """Makes runs, one at a time."""

    def submit(self, job: Job) -> RunRecord:
        """Make one run and wait for it.

        A worker that crashes, hangs or answers nonsense gives a record that says so. Raises
        StopRequestedError when the sweep is asked to stop meanwhile, and InfrastructureError when
        no worker can be started at all.
        """
        ...


class LocalExecutor:
    """Makes each run in a new process on this machine: job file in, run file out.

    Args:
        interruption: asked while waiting; None when nothing interrupts.
        command: what to start; the paths of the job and run files are appended.
        variables: environment variables of the worker, beside those of this process.
        written: the job file's text, for a worker of another revision than this.
    """

    def __init__(
        self,
        interruption: Interruption | None = None,
        command: Sequence[str] = WORKER,
        variables: Mapping[str, str] | None = None,
        written: Callable[[Job], str] = Job.model_dump_json,
    ) -> None:
        self._command = tuple(command)
        self._interruption = interruption
        self._variables = dict(variables or {})
        self._written = written
        adopt_orphans()

    def submit(self, job: Job) -> RunRecord:
        """Make one run in a process of its own; see `Executor`."""
        started_at = datetime.now(UTC)
        with _private_folder() as name:
            folder = Path(name)
            _write(folder / "job.json", self._written(job))
            ending = self._run(job, folder)
            answer = None
            with suppress(OSError):
                answer = (folder / "run.json").read_bytes().decode(errors="replace")
        return record(job, ending, answer, started_at)

    def _run(self, job: Job, folder: Path) -> Ending:
        kills_before = oom_kills() or 0
        mark = secrets.token_hex(16)
        start = time.monotonic()
        process = _start(self._command, job, folder, {**self._variables, MARK: mark})
        try:
            watch = _Watch(process, self._interruption)
        except BaseException:
            kill_group(process.pid)
            process.wait()
            raise
        try:
            timed_out = not watch.until(start + job.measure.timeout_seconds)
            if timed_out:
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGABRT)
                watch.until(time.monotonic() + _LAST_WORDS_S)
        finally:
            # The leader is a zombie at most, so its group's number is not used again yet.
            kill_group(process.pid)
            watch.close(_DEATH_S)
            kill_escaped(mark, process.pid)
        return Ending(
            exit_code=process.returncode,
            seconds=time.monotonic() - start,
            output=watch.output,
            timed_out=timed_out,
            oom_kills=(oom_kills() or 0) - kills_before,
        )


def _private_folder() -> TemporaryDirectory[str]:
    """A new folder for one run's files."""
    try:
        # A dying grandchild may still write there while it is removed.
        return TemporaryDirectory(prefix="harness-run-", ignore_cleanup_errors=True)
    except OSError as error:
        raise InfrastructureError(f"cannot make a folder for a run: {error}") from error


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        message = f"cannot write a job file below '{file.parent.parent}': {error.strerror}"
        raise InfrastructureError(message) from error


def _start(
    command: Sequence[str], job: Job, folder: Path, variables: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a worker as the leader of a session of its own."""
    threads = dict.fromkeys(THREAD_VARIABLES, str(job.case.threads))
    arguments = [*command, str(folder / "job.json"), str(folder / "run.json")]
    try:
        process = subprocess.Popen(
            arguments,
            # Not a folder of its own: a model may be named by a relative path.
            env={**os.environ, **threads, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        message = f"cannot start a worker with '{command[0]}': {error.strerror}"
        raise InfrastructureError(message) from error
    if sys.platform == "linux":
        with suppress(OSError):
            # Where memory runs out the kernel takes the worker, and not the sweep that must tell.
            Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
        with suppress(OSError, ValueError):
            # One byte means no core file, and none through a pipe either, which zero would allow
            # (core(5)): dumping a process of many gigabytes would hold up the sweep.
            _, hard = resource.prlimit(process.pid, resource.RLIMIT_CORE)
            limit = 1 if hard != 0 else 0
            resource.prlimit(process.pid, resource.RLIMIT_CORE, (limit, limit))
    return process


class _Watch:
    """Waits for a process while draining its output, of which the end is kept.

    Nothing polls: a wake-up of this process would disturb what the worker measures.
    """

    def __init__(self, process: subprocess.Popen[bytes], stop: Interruption | None) -> None:
        assert process.stdout is not None
        self.output = b""
        self._process = process
        self._stop = stop
        self._ended = False
        self._stopping = False
        self._pipe = process.stdout
        os.set_blocking(self._pipe.fileno(), False)
        self._end_fd, write_fd = os.pipe()
        self._waiter = threading.Thread(target=_announce_end, args=(process, write_fd))
        self._waiter.daemon = True
        self._waiter.start()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._pipe, selectors.EVENT_READ, self._drain)
        self._selector.register(self._end_fd, selectors.EVENT_READ, self._note_end)
        if stop is not None:
            self._selector.register(stop.fd, selectors.EVENT_READ, self._note_stop)

    def until(self, deadline: float) -> bool:
        """Wait; True when the process has ended, False when the deadline (monotonic) passed."""
        while not self._ended:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            for key, _ in self._selector.select(left):
                key.data()
            # A run that ended at the same moment counts: it is stored before the sweep stops.
            if self._stopping and not self._ended:
                raise StopRequestedError("asked to stop")
        return True

    def close(self, patience_s: float) -> None:
        """Wait for a killed process to be gone, take its last output, and reap it."""
        if self._stop is not None:
            self._selector.unregister(self._stop.fd)
            self._stopping = False
        gone = self.until(time.monotonic() + patience_s)
        if gone:
            for _ in range(_PIPE_BYTES // _CHUNK_BYTES):
                self._drain()
            self._process.wait()
            self._waiter.join()
            os.close(self._end_fd)
        self._selector.close()
        self._pipe.close()
        if not gone:
            raise InfrastructureError(
                f"worker {self._process.pid} does not end {patience_s:g} s after SIGKILL; "
                "its device's driver hangs, so nothing more can be measured here"
            )

    def _drain(self) -> None:
        """Take one chunk of what there is to read; leave the selector at the end of the output."""
        with suppress(BlockingIOError):
            chunk = os.read(self._pipe.fileno(), _CHUNK_BYTES)
            self.output = (self.output + chunk)[-TAIL_BYTES:]
            if not chunk:
                with suppress(KeyError):
                    self._selector.unregister(self._pipe)

    def _note_end(self) -> None:
        self._ended = True

    def _note_stop(self) -> None:
        self._stopping = True


def _announce_end(process: subprocess.Popen[bytes], write_fd: int) -> None:
    """Close `write_fd` once the process has ended, and leave it unreaped where the system can."""
    if hasattr(os, "waitid"):
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()
    os.close(write_fd)
