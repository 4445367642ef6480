"""Ctrl-C and its kin: a request to stop that is noticed between runs and while one is awaited.

Handlers only take a note and write one byte to a pipe, so that no exception can strike in the
middle of starting a process or saving a run.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from harness.exit_codes import interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequestedError(Exception):
    """Raised by an executor whose run was cut short by a request to stop."""


class Interruption:
    """Listens for SIGINT, SIGTERM and SIGHUP while it is entered; enter it in the main thread.

    `fd` becomes readable once a stop is requested. The first signal restores the handlers that
    were there before, so a second Ctrl-C ends a command that hangs in its clean-up.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self.fd, self._write_fd = os.pipe()
        self._previous: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> Interruption:
        for signum in SIGNALS:
            # What was ignored stays so: `nohup harness sweep` must outlive its terminal.
            if signal.getsignal(signum) is not signal.SIG_IGN:
                self._previous[signum] = signal.signal(signum, self._take)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()
        os.close(self.fd)
        os.close(self._write_fd)

    @property
    def requested(self) -> bool:
        """Whether a signal arrived."""
        return self.signum is not None

    @property
    def exit_code(self) -> int:
        """The code of a command that this signal ended."""
        assert self.signum is not None
        return interrupted(self.signum)

    def request(self, signum: int = signal.SIGINT) -> None:
        """Ask for a stop, as the signal would."""
        if self.signum is None:
            self.signum = signum
            os.write(self._write_fd, b"x")

    def _take(self, signum: int, frame: FrameType | None) -> None:
        del frame
        self.request(signum)
        self._restore()

    def _restore(self) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        self._previous.clear()
