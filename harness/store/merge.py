"""Merging one database into another: what is there by its natural key is left alone.

One transaction a sweep, so that a merge that was killed is continued by running it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, insert, select, update

from harness.errors import UsageError
from harness.store import models
from harness.store.base import Base
from harness.store.faults import shown, told
from harness.store.reader import Reader
from harness.store.store import Store, find_or_add

Row = dict[str, Any]
Ids = dict[tuple[type[Base], int], int]

# What a row points to, by column. Runs find their sweep on the way down.
_PARENTS: dict[str, type[Base]] = {
    "hardware_id": models.Hardware,
    "environment_id": models.Environment,
    "revision_id": models.Revision,
    "from_revision_id": models.Revision,
    "to_revision_id": models.Revision,
    "case_id": models.Case,
}
_KEYS: dict[type[Base], tuple[str, ...]] = {
    models.Hardware: ("identity_hash",),
    models.Environment: ("hash",),
    models.Revision: ("repo", "commit", "diff_hash"),
    models.Case: ("hash",),
    models.Sweep: ("uid",),
    models.Run: ("sweep_id", "case_id", "source", "round", "attempt"),
    models.Alert: ("case_id", "hardware_id", "metric", "kind", "created_at"),
    models.AcceptedLevel: ("case_id", "hardware_id", "source", "metric", "created_at"),
}
_CHILDREN: tuple[type[Base], ...] = (models.Metric, models.Samples, models.Gate)


@dataclass(frozen=True)
class Merged:
    """What a merge added; all zero where everything was there already."""

    sweeps: int = 0
    runs: int = 0
    alerts: int = 0


def merge(source: Reader, target: Store) -> Merged:
    """Add every sweep, run, alert and accepted level of `source` that `target` does not have.

    A sweep that ended since the last merge gets its end too. Samples that `target` dropped are not
    brought back: their run is there.

    Raises:
        UsageError: both are the same database.
    """
    if source.url == target.url:
        raise UsageError(f"{shown(source.url)} cannot be merged into itself")
    ids: Ids = {}
    added = Merged()
    with told(source.url), source.engine.connect() as read:
        for sweep in _rows(read, models.Sweep, order_by="started_at"):
            with told(target.url), target.engine.begin() as write:
                counts = _merge_sweep(read, write, sweep, ids)
            added = Merged(added.sweeps + counts.sweeps, added.runs + counts.runs)
        with told(target.url), target.engine.begin() as write:
            alerts = _rows(read, models.Alert)
            new = [_place(read, write, models.Alert, alert, ids)[1] for alert in alerts]
            for level in _rows(read, models.AcceptedLevel):
                _place(read, write, models.AcceptedLevel, level, ids)
    return Merged(added.sweeps, added.runs, sum(new))


def _merge_sweep(read: Connection, write: Connection, sweep: Row, ids: Ids) -> Merged:
    sweep_id, is_new = _place(read, write, models.Sweep, sweep, ids)
    if sweep["ended_at"] is not None:
        write.execute(
            update(models.Sweep)
            .where(models.Sweep.id == sweep_id, models.Sweep.ended_at.is_(None))
            .values(ended_at=sweep["ended_at"], status=sweep["status"])
        )
    runs = models.Run.__table__
    new_ids: dict[int, int] = {}
    for row in _rows(read, models.Run, runs.c.sweep_id == sweep["id"]):
        run_id, added = _place(read, write, models.Run, row | {"sweep_id": sweep_id}, ids)
        if added:
            new_ids[row["id"]] = run_id
    its_runs = select(runs.c.id).where(runs.c.sweep_id == sweep["id"])
    for child in _CHILDREN if new_ids else ():
        copies = [
            {name: value for name, value in row.items() if name != "id"}
            | {"run_id": new_ids[row["run_id"]]}
            for row in _rows(read, child, child.__table__.c.run_id.in_(its_runs))
            if row["run_id"] in new_ids
        ]
        if copies:
            write.execute(insert(child), copies)
    return Merged(int(is_new), len(new_ids))


def _place(
    read: Connection, write: Connection, model: type[Base], row: Row, ids: Ids
) -> tuple[int, bool]:
    """The id that a row of the source has in the target, and whether it was added; parents first.

    `ids` remembers what parents were found: (model, id in the source) to id in the target.
    """
    values = {name: value for name, value in row.items() if name != "id"}
    for column, parent in _PARENTS.items():
        if values.get(column) is not None:
            at = (parent, values[column])
            if at not in ids:
                (its_row,) = _rows(read, parent, parent.__table__.c.id == values[column])
                ids[at] = _place(read, write, parent, its_row, ids)[0]
            values[column] = ids[at]
    key = {name: values.pop(name) for name in _KEYS[model]}
    return find_or_add(write, model, key, values)


def _rows(
    read: Connection, model: type[Base], *conditions: ColumnElement[bool], order_by: str = "id"
) -> list[Row]:
    table = model.__table__
    query = select(table).where(*conditions).order_by(table.c[order_by], table.c.id)
    return [dict(row) for row in read.execute(query).mappings()]
