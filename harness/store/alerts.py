"""Alerts in the store: what was found in a history, what became of it, and accepted levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, insert, select, update

from harness.errors import UsageError
from harness.store import models
from harness.store.faults import shown, told
from harness.store.reader import Reader
from harness.store.store import Store


@dataclass(frozen=True)
class AlertRow:
    """One change of one series, as stored. Times in UTC; levels in the metric's unit."""

    case_id: int
    hardware_id: int
    source: str
    metric: str
    kind: str
    state: str
    cause: str
    reason: str
    created_at: datetime  # start of the sweep that found it
    since: datetime | None  # start of the first sweep at the new level
    from_revision_id: int | None = None
    to_revision_id: int | None = None
    base: float | None = None
    head: float | None = None
    effect: float | None = None  # times better, as everywhere
    interval_low: float | None = None
    interval_high: float | None = None
    confidence: float | None = None
    id: int = 0  # 0: not stored yet


@dataclass(frozen=True)
class LevelRow:
    """From `since` on a series is at a level that was accepted."""

    case_id: int
    hardware_id: int
    source: str
    metric: str
    since: datetime
    level: float | None
    reason: str
    created_at: datetime


_ALERT = tuple(AlertRow.__dataclass_fields__)
_LEVEL = tuple(LevelRow.__dataclass_fields__)


def alerts(reader: Reader | Store) -> list[AlertRow]:
    """Every alert, oldest first."""
    table = models.Alert.__table__
    query = select(*(table.c[name] for name in _ALERT)).order_by(table.c.created_at, table.c.id)
    with told(reader.url), reader.engine.connect() as connection:
        return [AlertRow(**row) for row in connection.execute(query).mappings()]


def levels(reader: Reader | Store) -> list[LevelRow]:
    """Every accepted level, oldest first."""
    table = models.AcceptedLevel.__table__
    query = select(*(table.c[name] for name in _LEVEL)).order_by(table.c.created_at, table.c.id)
    with told(reader.url), reader.engine.connect() as connection:
        return [LevelRow(**row) for row in connection.execute(query).mappings()]


def save(store: Store, rows: Sequence[AlertRow]) -> list[int]:
    """Store new alerts (id 0) and the new state of known ones, in one transaction; their ids."""
    with told(store.url), store.engine.begin() as connection:
        return [_save(connection, row) for row in rows]


def acknowledge(store: Store, numbers: Sequence[int], reason: str) -> list[AlertRow]:
    """Mark alerts as known, and accept the level since each of them; the alerts as they were.

    Raises:
        UsageError: there is no such alert, or no reason.
    """
    if not reason.strip():
        raise UsageError("an acknowledgement needs a reason: --reason 'known, see #12'")
    known = {row.id: row for row in alerts(store)}
    missing = [number for number in numbers if number not in known]
    if missing:
        some = ", ".join(str(i) for i in sorted(known)[-5:]) or "none"
        raise UsageError(f"there is no alert {missing[0]} in {shown(store.url)}; the last: {some}")
    now = datetime.now(UTC)
    with told(store.url), store.engine.begin() as connection:
        for number in numbers:
            row = known[number]
            connection.execute(
                update(models.Alert)
                .where(models.Alert.id == number)
                .values(state="acknowledged", reason=_joined(row.reason, reason))
            )
            if row.since is not None and row.kind in ("step", "drift"):
                _accept(connection, row, row.since, None, reason, now)
    return [known[number] for number in numbers]


def accept(store: Store, rows: Sequence[LevelRow]) -> None:
    """Store accepted levels."""
    with told(store.url), store.engine.begin() as connection:
        for row in rows:
            _accept(connection, row, row.since, row.level, row.reason, row.created_at)


def _accept(
    connection: Connection,
    of: AlertRow | LevelRow,
    since: datetime,
    level: float | None,
    reason: str,
    now: datetime,
) -> None:
    key = {name: getattr(of, name) for name in ("case_id", "hardware_id", "source", "metric")}
    values = {"since": since, "level": level, "reason": reason, "created_at": now}
    connection.execute(insert(models.AcceptedLevel).values({**key, **values}))


def _save(connection: Connection, row: AlertRow) -> int:
    values = {name: getattr(row, name) for name in _ALERT if name != "id"}
    if not row.id:
        key = ("case_id", "hardware_id", "metric", "kind", "created_at")
        same = select(models.Alert.id).filter_by(**{name: values[name] for name in key})
        found = connection.scalar(same)
        if found is None:
            added = connection.execute(insert(models.Alert).values(values)).inserted_primary_key
            assert added is not None
            return int(added[0])
        row_id = found
    else:
        row_id = row.id
    connection.execute(update(models.Alert).where(models.Alert.id == row_id).values(values))
    return row_id


def _joined(old: str, new: str) -> str:
    return f"{old}; acknowledged: {new}" if old else f"acknowledged: {new}"
