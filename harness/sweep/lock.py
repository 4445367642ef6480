"""One sweep at a time measures on a machine: two would spoil each other's numbers.

The lock is a file held with flock(2), which the kernel lets go of when its holder dies, however
it dies. The file's text says who holds it; text of a process that is gone is stale and taken over.
"""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

import psutil
from pydantic import AwareDatetime, ValidationError

from harness.errors import InfrastructureError
from harness.records import Record


class Holder(Record):
    """The process that holds a lock. Its start time tells it from a later one with the same pid."""

    pid: int
    process_started_at: float  # seconds since the epoch, as the system reports it
    boot: str
    host: str
    command: str
    since: AwareDatetime

    @classmethod
    def this_process(cls) -> Holder:
        """The calling process, now."""
        return cls(
            pid=os.getpid(),
            process_started_at=psutil.Process().create_time(),
            boot=_boot(),
            host=platform.node(),
            command=" ".join(sys.argv),
            since=datetime.now(UTC),
        )

    def gone(self) -> bool:
        """Whether that process has certainly ended; another host's processes cannot be seen."""
        if self.host != platform.node():
            return False
        if self.boot != _boot():
            return True
        try:
            started_at = psutil.Process(self.pid).create_time()
        except psutil.NoSuchProcess:
            return True
        # The system counts in ticks of 10 ms, from a boot time that may be adjusted by a second.
        return abs(started_at - self.process_started_at) > 2.0


class DeviceLock:
    """Holds the lock of a machine while it is entered.

    After entering, `taken_over` is the holder that died with the lock in its name, or None.

    Args:
        file: the lock's file; made when missing, and never removed.
    """

    def __init__(self, file: Path) -> None:
        self.taken_over: Holder | None = None
        self._file = file
        self._fd = -1

    def __enter__(self) -> DeviceLock:
        try:
            self._fd = _open(self._file)
        except OSError as error:
            message = f"cannot open the lock '{self._file}': {error.strerror}"
            raise InfrastructureError(message) from error
        try:
            self._acquire()
        except BaseException:
            os.close(self._fd)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            os.ftruncate(self._fd, 0)
        os.close(self._fd)

    def _acquire(self) -> None:
        held = False
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held = True
        except OSError as error:
            # Some network file systems lock nothing; the text alone must do there.
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
                message = f"cannot lock '{self._file}': {error.strerror}"
                raise InfrastructureError(message) from error
        holder = self._read()
        if held or (holder is not None and not holder.gone()):
            raise InfrastructureError(self._refusal(holder))
        self.taken_over = holder
        text = Holder.this_process().model_dump_json().encode()
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, text, 0)
        except OSError as error:
            message = f"cannot write the lock '{self._file}': {error.strerror}"
            raise InfrastructureError(message) from error

    def _read(self) -> Holder | None:
        """Who wrote the file last; None when nobody or nonsense."""
        with suppress(ValidationError):
            return Holder.model_validate_json(os.pread(self._fd, 1 << 16, 0))
        return None

    def _refusal(self, holder: Holder | None) -> str:
        who = "another process"
        if holder is not None:
            since = holder.since.strftime("%Y-%m-%d %H:%M:%S UTC")
            who = f"process {holder.pid} on {holder.host} ('{holder.command}', since {since})"
        return (
            f"{who} is measuring on this machine, and two sweeps at once spoil each other's "
            f"numbers; wait for it or stop it (lock '{self._file}')"
        )


def _open(file: Path) -> int:
    """A descriptor of the lock file, which anyone may lock: machines are shared.

    An existing file is opened without O_CREAT, which Linux refuses for another user's file in a
    shared folder (fs.protected_regular, proc_sys_fs(5)).
    """
    flags = os.O_RDWR | os.O_CLOEXEC
    with suppress(FileNotFoundError):
        return os.open(file, flags)
    try:
        fd = os.open(file, flags | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        return os.open(file, flags)
    os.fchmod(fd, 0o666)
    return fd


def _boot() -> str:
    """What tells this boot of the machine from the one before."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return str(round(psutil.boot_time()))
