"""Making a database smaller: raw samples of old sweeps, and rows that nothing names any more."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.orm import InstrumentedAttribute

from harness.store import models
from harness.store.base import Base
from harness.store.faults import told
from harness.store.store import Store

# A row of each is an orphan when none of the columns beside it names it.
_NAMED_BY: dict[
    type[Base], tuple[InstrumentedAttribute[int] | InstrumentedAttribute[int | None], ...]
] = {
    models.Case: (models.Run.case_id, models.Alert.case_id, models.AcceptedLevel.case_id),
    models.Hardware: (
        models.Sweep.hardware_id,
        models.Alert.hardware_id,
        models.AcceptedLevel.hardware_id,
    ),
    models.Environment: (models.Sweep.environment_id,),
    models.Revision: (
        models.Sweep.revision_id,
        models.Alert.from_revision_id,
        models.Alert.to_revision_id,
    ),
}


@dataclass(frozen=True)
class Collected:
    """What was dropped, or would be; sizes are None for a server's database."""

    sweeps: int  # those whose samples went
    samples: int
    sample_bytes: int
    orphans: int
    bytes_before: int | None
    bytes_after: int | None


def collect(store: Store, keep: int, *, dry_run: bool = False) -> Collected:
    """Drop the samples of all but the newest `keep` sweeps, and orphans; give the space back.

    Sweeps, runs, metrics and gates stay for ever: they are the history. On a server the space is
    left to the server's own vacuum.
    """
    before = _size(store)
    with told(store.url), store.engine.connect() as connection, connection.begin() as transaction:
        sweeps, samples, sample_bytes = _drop_samples(connection, keep)
        orphans = sum(_drop_orphans(connection, model) for model in _NAMED_BY)
        if dry_run:
            transaction.rollback()
    if not dry_run:
        _give_back(store)
    after = before if dry_run else _size(store)
    return Collected(sweeps, samples, sample_bytes, orphans, before, after)


def _drop_samples(connection: Connection, keep: int) -> tuple[int, int, int]:
    newest = select(models.Sweep.id).order_by(
        models.Sweep.started_at.desc(), models.Sweep.id.desc()
    )
    kept = connection.scalars(newest.limit(keep)).all()
    old = select(models.Run.id).where(models.Run.sweep_id.not_in(kept))
    sweeps, samples, size = connection.execute(
        select(
            func.count(models.Run.sweep_id.distinct()),
            func.count(models.Samples.id),
            func.coalesce(func.sum(func.length(models.Samples.data)), 0),
        )
        .join(models.Run, models.Samples.run_id == models.Run.id)
        .where(models.Run.id.in_(old))
    ).one()
    connection.execute(delete(models.Samples).where(models.Samples.run_id.in_(old)))
    return sweeps, samples, size


def _drop_orphans(connection: Connection, model: type[Base]) -> int:
    table = model.__table__
    query = delete(model)
    for column in _NAMED_BY[model]:
        query = query.where(table.c.id.not_in(select(column).where(column.is_not(None))))
    return connection.execute(query).rowcount


def _give_back(store: Store) -> None:
    if store.engine.dialect.name != "sqlite":
        return
    with told(store.url), store.engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        # Both fail inside a transaction, and every transaction of this engine begins by itself.
        driver.execute("VACUUM")
        driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _size(store: Store) -> int | None:
    if store.engine.dialect.name != "sqlite":
        return None
    file = str(store.url.database)
    return sum(path.stat().st_size for path in map(Path, (file, f"{file}-wal")) if path.exists())
