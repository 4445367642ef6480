"""`python -P -m harness.worker [--verify] [--interpret] job.json run.json`: from a job to a run.

The exit code is 0 whenever the run file was written, whatever it says. The file appears whole or
not at all. `--verify` runs only the gates, `--interpret` Triton kernels in their interpreter.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
from pathlib import Path

from pydantic import ValidationError

from harness import worker
from harness.worker.job import Job

_USAGE = "usage: python -P -m harness.worker [--verify] [--interpret] job.json run.json"
_PR_SET_PDEATHSIG = 1  # prctl(2)


def main(arguments: list[str]) -> int:
    """Run one job. 2 for arguments or a job that cannot be read."""
    flags = {argument for argument in arguments if argument.startswith("--")}
    paths = [Path(argument) for argument in arguments if argument not in flags]
    if len(paths) != 2 or not flags <= {"--verify", "--interpret"}:
        print(_USAGE, file=sys.stderr)
        return 2
    try:
        job = Job.model_validate_json(paths[0].read_bytes())
    except (OSError, ValidationError) as error:
        print(f"harness: {paths[0]} is no readable job: {error}", file=sys.stderr)
        return 2
    if "--interpret" in flags:
        # Triton reads it when it is imported, which is later.
        os.environ["TRITON_INTERPRET"] = "1"
    record = worker.verify(job) if "--verify" in flags else worker.run(job)
    write_whole(paths[1], record.model_dump_json())
    return 0


def die_with_parent() -> None:
    """Be killed when the parent dies (Linux): an orphan would disturb the next measurement.

    The kernel watches the parent's *thread*: whoever starts workers must keep that thread alive.
    """
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It died before the kernel was told to watch it.
        os.kill(os.getpid(), signal.SIGKILL)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader sees all of it or nothing."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text)
    temporary.replace(path)


if __name__ == "__main__":
    # An interrupt from the terminal ends this process without a traceback: the parent reports it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    faulthandler.enable()
    die_with_parent()
    sys.exit(main(sys.argv[1:]))
