"""Which stored sweep `--resume` continues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
_FREE = ("--db", "--budget", "--seed", "--hardware")
# In the command lines of both sides of a comparison: one text marks one job, the other the side.
SESSION, SIDE = "--session", "--side"
_FLAGS = ("--resume", "--run")


def given(argv: Sequence[str], option: str) -> list[str]:
    """Every value of an option of a sweep's command line, in order; see `Order.argv`."""
    return [value for name, value in _options(argv) if name == option]


def choice(argv: Sequence[str]) -> list[tuple[str, str]]:
    """The options of a sweep's command line that decide what it measures, sorted."""
    return sorted(pair for pair in _options(argv) if pair[0] not in _FREE)


def _options(argv: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options with their values, each an argument of its own; other arguments are passed over."""
    rest = iter(argv)
    for name in rest:
        if name.startswith("--") and name not in _FLAGS:
            yield name, next(rest, "")


def _same(row: SweepRow, start: SweepStart) -> bool:
    return (
        row.argv[:1] == start.argv[:1]  # a stored rerun is no sweep to continue
        and row.suite == start.suite
        and row.suite_hash == start.suite_hash
        and row.hardware.identity_hash == start.hardware.identity_hash
        and choice(row.argv) == choice(start.argv)
    )


def _code(sweep: SweepStart) -> tuple[str, str] | None:
    revision = sweep.revision
    return None if revision is None else (revision.commit, revision.diff_hash)
