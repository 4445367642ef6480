"""Which two stored sweeps are meant: by number, by database file, or by revision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError, printable
from harness.store import StoredRun, SweepRow, open_reader
from harness.sweep.resume import SESSION, SIDE, given

# The commit that a name stands for, or None.
Resolve = Callable[[str], str | None]

_SHORTEST = 4  # characters of a commit that git would take too


@dataclass(frozen=True)
class Stored:
    """One side as stored."""

    sweep: SweepRow
    runs: tuple[StoredRun, ...]


@dataclass(frozen=True)
class _Found:
    """The sweeps that a side may mean, newest first, and the database that holds them."""

    name: str
    url: str | None
    sweeps: tuple[SweepRow, ...]


def find(
    base: str, head: str, db: str | None, resolve: Resolve, suite: str | None = None
) -> tuple[Stored, Stored]:
    """The two sweeps that are compared.

    Of several that a name may mean those of one session are taken, else the newest of one suite.

    Args:
        base: a sweep's number or "last", a database (its newest sweep), or a revision.
        head: the same.
        db: the database of numbers and revisions; None is the default one.
        resolve: names of revisions to commits.
        suite: only sweeps of this suite.

    Raises:
        UsageError: a side that is not there, or twice the same sweep.
    """
    first, second = (_candidates(name, db, resolve, suite) for name in (base, head))
    pairs = [
        (theirs, ours)
        for ours in second.sweeps
        for theirs in first.sweeps
        if theirs.uid != ours.uid and _in_order(theirs, ours)
    ]
    if not pairs:
        raise UsageError(
            f"'{printable(base)}' and '{printable(head)}' are the same sweep; a comparison needs "
            "two, measured with 'harness compare --run' or by two sweeps"
        )
    theirs, ours = max(pairs, key=_closeness)
    return _read(theirs, first.url), _read(ours, second.url)


def measured(rows: Sequence[SweepRow], suite: str | None = None) -> list[SweepRow]:
    """Sweeps that were measured and hold a run, newest first; predictions beside them are none."""
    return [
        row
        for row in reversed(rows)
        if row.runs and row.hardware.catalogue_name is None and suite in (None, row.suite)
    ]


def _candidates(name: str, db: str | None, resolve: Resolve, suite: str | None) -> _Found:
    if _is_database(name):
        with open_reader(name) as reader:
            sweeps = measured(reader.sweeps(), suite)
        if not sweeps:
            of = f" of suite '{printable(suite)}'" if suite else ""
            raise UsageError(f"{printable(name)} holds no measured sweep{of}")
        return _Found(name, name, tuple(sweeps))
    with open_reader(db) as reader:
        rows = reader.sweeps()
        if name == "last":
            return _Found(name, db, tuple(measured(rows, suite)[:1]) or (reader.sweep("last"),))
        if name.isdecimal() and (len(name) < _SHORTEST or _has(rows, name)):
            return _Found(name, db, (reader.sweep(name),))
    commit = resolve(name)
    sweeps = [row for row in measured(rows, suite) if _of_revision(row, name, commit)]
    if not sweeps:
        known = f" ({commit[:12]})" if commit else ", which is no revision of this checkout either"
        raise UsageError(
            f"no sweep of '{printable(name)}'{known} is stored; give a sweep's number, a database "
            "file or a measured revision, or measure both sides: harness compare --run BASE HEAD "
            "SUITE"
        )
    return _Found(name, db, tuple(sweeps))


def _is_database(name: str) -> bool:
    return "://" in name or name.endswith((".db", ".sqlite")) or Path(name).is_file()


def _has(rows: Sequence[SweepRow], name: str) -> bool:
    return any(str(row.id) == name for row in rows)


def _of_revision(row: SweepRow, name: str, commit: str | None) -> bool:
    """Whether a sweep measured that commit as it is; one that git lost is found by its name."""
    if row.revision is None or row.revision.dirty:
        return False
    if commit is not None:
        return row.revision.commit == commit
    return len(name) >= _SHORTEST and row.revision.commit.startswith(name)


def _in_order(base: SweepRow, head: SweepRow) -> bool:
    """Two sides of one session are only compared as they were measured: base is base."""
    return not _one_session(base, head) or given(base.argv, SIDE) == ["base"]


def _one_session(base: SweepRow, head: SweepRow) -> bool:
    mark = given(base.argv, SESSION)
    return bool(mark) and mark == given(head.argv, SESSION)


def _closeness(pair: tuple[SweepRow, SweepRow]) -> tuple[object, ...]:
    base, head = pair
    return (
        _one_session(base, head),
        base.suite_hash == head.suite_hash,
        base.hardware.identity_hash == head.hardware.identity_hash,
        base.suite == head.suite,
        head.started_at,
        base.started_at,
    )


def _read(row: SweepRow, url: str | None) -> Stored:
    with open_reader(url) as reader:
        return Stored(row, tuple(reader.runs(row.id)))
