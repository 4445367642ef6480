"""Which stored sweep `--resume` continues."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import UsageError
from harness.store.rows import SweepRow, SweepStart


def find(start: SweepStart, stored: Sequence[SweepRow]) -> SweepRow:
    """The last sweep of the same suite on the same hardware, if it is unfinished.

    The same suite means its hash after overrides, and the same choice of cases. Raises UsageError
    when there is none, when the last one is complete, and when code or environment changed since:
    one sweep is one state of both.

    Args:
        start: the sweep that would begin now.
        stored: all sweeps of the database.
    """
    alike = [row for row in stored if _same(row, start)]
    if not alike:
        raise UsageError(
            f"nothing to resume: no sweep of suite '{start.suite}' with these options on this "
            "hardware is stored; leave --resume out to begin one"
        )
    last = max(alike, key=lambda row: row.id)
    if last.status == "complete":
        raise UsageError(
            f"nothing to resume: sweep {last.id}, the last of suite '{start.suite}', is complete; "
            "leave --resume out to begin another"
        )
    for what, then, now in (
        ("code", _code(last), _code(start)),
        ("environment", last.environment.hash, start.environment.hash),
    ):
        if then != now:
            raise UsageError(
                f"sweep {last.id} cannot be resumed: the {what} has changed since it began, and a "
                "sweep is of one state; leave --resume out to begin another"
            )
    return last


# Options that choose neither a case nor how it is measured.
_FREE = ("--db", "--budget", "--seed")
_FREE_FLAGS = ("--resume",)


def choice(argv: Sequence[str]) -> list[str]:
    """The options of a sweep's command line that decide what it measures, sorted.

    Args:
        argv: "sweep", the suite, then options, each value an argument of its own.
    """
    options: list[str] = []
    rest = iter(argv[2:])
    for name in rest:
        if name not in _FREE_FLAGS:
            value = next(rest)
            if name not in _FREE:
                options.append(f"{name} {value}")
    return sorted(options)


def _same(row: SweepRow, start: SweepStart) -> bool:
    return (
        row.suite == start.suite
        and row.suite_hash == start.suite_hash
        and row.hardware.identity_hash == start.hardware.identity_hash
        and choice(row.argv) == choice(start.argv)
    )


def _code(sweep: SweepStart) -> tuple[str, str] | None:
    revision = sweep.revision
    return None if revision is None else (revision.commit, revision.diff_hash)
