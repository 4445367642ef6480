"""Telling how far a sweep is: a bar with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from harness.run import RunRecord
from harness.suite.case import Case


class Progress(Protocol):
    """Told of every step of a sweep; entered while it runs."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def begin(self, runs: int, expected_s: float) -> None:
        """So many runs are to be made, in about so long."""
        ...

    def start(self, case: Case, number: int) -> None:
        """A run of this case begins, in this round."""
        ...

    def finish(self, case: Case, record: RunRecord, took_s: float, left_s: float) -> None:
        """That run is stored, it took so long with its process; the rest takes about so long."""
        ...

    def skip(self, runs: int) -> None:
        """So many runs will not be made after all."""
        ...

    def note(self, sentence: str) -> None:
        """Something worth telling that is no run."""
        ...


def for_console(console: Console) -> Progress:
    """A bar on a terminal, plain lines in a file, a pipe or a CI log."""
    return TerminalProgress(console) if console.is_terminal else PlainProgress(console)


class PlainProgress:
    """One line a run, which a log keeps readable."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._total = self._done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return

    def begin(self, runs: int, expected_s: float) -> None:
        """See `Progress`."""
        self._total, self._done = runs, 0
        self._print(f"{runs} runs, about {duration(expected_s)}")

    def start(self, case: Case, number: int) -> None:
        """See `Progress`; a line a run is told when it ends."""

    def finish(self, case: Case, record: RunRecord, took_s: float, left_s: float) -> None:
        """See `Progress`."""
        self._done += 1
        left = f"{duration(left_s)} left" if left_s > 0 else "done"
        self._print(f"[{self._done}/{self._total}] {_line(case, record, took_s)}; {left}")

    def skip(self, runs: int) -> None:
        """See `Progress`."""
        self._total -= runs

    def note(self, sentence: str) -> None:
        """See `Progress`."""
        self._print(sentence)

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class TerminalProgress:
    """A bar that shows the running case and the time left; failures stay above it."""

    def __init__(self, console: Console) -> None:
        self._bar = Bar(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.description}", markup=False),
            console=console,
            # Drawn on events only: a thread that redraws would take the measured cores' time.
            auto_refresh=False,
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def begin(self, runs: int, expected_s: float) -> None:
        """See `Progress`."""
        self._task = self._bar.add_task("", total=runs, left=f"{duration(expected_s)} left")
        self._bar.refresh()

    def start(self, case: Case, number: int) -> None:
        """See `Progress`."""
        self._update(description=f"{case.title}, round {number}")

    def finish(self, case: Case, record: RunRecord, took_s: float, left_s: float) -> None:
        """See `Progress`."""
        if record.status != "ok":
            self.note(_line(case, record, took_s))
        self._update(advance=1, left=f"{duration(left_s)} left")

    def skip(self, runs: int) -> None:
        """See `Progress`."""
        if self._task is not None:
            total = self._bar.tasks[self._task].total or 0
            self._update(total=total - runs)

    def note(self, sentence: str) -> None:
        """See `Progress`."""
        self._bar.console.print(Text(sentence))

    def _update(self, **changes: object) -> None:
        if self._task is not None:
            self._bar.update(self._task, refresh=True, **changes)  # type: ignore[arg-type]


def duration(seconds: float) -> str:
    """A length of time for people, "48 s", "3m05s" or "2h10m"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"


def _line(case: Case, record: RunRecord, took_s: float) -> str:
    attempt = f", attempt {record.attempt}" if record.attempt > 1 else ""
    reason = f" ({record.reason})" if record.reason else ""
    return f"{case.title}, round {record.round}{attempt}: {record.status}{reason} in {took_s:.1f} s"
