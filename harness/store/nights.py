"""The store as histories: every sweep as a night, and every number of it as a plain tuple.

One query for all series: a history of thousands of them is read whole each night.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, select

from harness.store import models
from harness.store.faults import told
from harness.store.reader import Reader


@dataclass(frozen=True)
class NightRow:
    """One sweep, as far as a history needs it."""

    sweep_id: int
    started_at: datetime
    status: str
    suite: str
    suite_hash: str
    hardware_id: int
    environment_hash: str
    revision_id: int | None
    commit: str | None
    branch: str | None
    committed_at: datetime | None
    dirty: bool
    partial: bool = False  # told to measure only some of the suite's cases


# case, hardware, source, metric, sweep, round, attempt, value (None where it is NULL)
Number = tuple[int, int, str, str, int, int, int, float | None]
# case, hardware, source, sweep, round, attempt, status, reason
Ending = tuple[int, int, str, int, int, int, str, str | None]
# case, hardware, source, sweep, name, detail: gates that a run did not pass
RedGate = tuple[int, int, str, int, str, str]

# Predictions move with the catalogue and the model of the device, never with the code's speed.
SOURCES = ("measured", "static")
# Commands whose sweeps are no nights: they look at single cases, or at old code beside new.
_NO_NIGHTS = ("compare", "rerun")


def nights(reader: Reader, most: int) -> list[NightRow]:
    """The newest `most` sweeps of each device that were nights, oldest first."""
    table = (
        select(
            models.Sweep.id.label("sweep_id"),
            models.Sweep.started_at,
            models.Sweep.status,
            models.Sweep.suite,
            models.Sweep.suite_hash,
            models.Sweep.hardware_id,
            models.Environment.hash.label("environment_hash"),
            models.Sweep.revision_id,
            models.Revision.commit,
            models.Revision.branch,
            models.Revision.committed_at,
            models.Revision.dirty,
            models.Sweep.argv,
        )
        .join(models.Environment, models.Sweep.environment_id == models.Environment.id)
        .outerjoin(models.Revision, models.Sweep.revision_id == models.Revision.id)
        .order_by(models.Sweep.started_at, models.Sweep.id)
    )
    with told(reader.url), reader.engine.connect() as connection:
        found = connection.execute(table).mappings().all()
    rows = [
        NightRow(
            **{name: value for name, value in row.items() if name not in ("argv", "dirty")},
            dirty=bool(row["dirty"]),
            partial="--only" in row["argv"],
        )
        for row in found
        if row["argv"][:1] not in ([name] for name in _NO_NIGHTS)
    ]
    by_device: dict[int, list[NightRow]] = {}
    for row in rows:
        by_device.setdefault(row.hardware_id, []).append(row)
    kept = {row.sweep_id for rows in by_device.values() for row in rows[-most:]}
    return [row for row in rows if row.sweep_id in kept]


def numbers(reader: Reader, first_sweep: int) -> list[Number]:
    """Every metric of every run that was ok, from that sweep's id on."""
    query = (
        select(
            models.Run.case_id,
            models.Sweep.hardware_id,
            models.Run.source,
            models.Metric.name,
            models.Run.sweep_id,
            models.Run.round,
            models.Run.attempt,
            models.Metric.value,
        )
        .join(models.Run, models.Metric.run_id == models.Run.id)
        .join(models.Sweep, models.Run.sweep_id == models.Sweep.id)
        .where(
            models.Run.sweep_id >= first_sweep,
            models.Run.status == "ok",
            models.Run.source.in_(SOURCES),
        )
    )
    return _tuples(reader, query)


def endings(reader: Reader, first_sweep: int) -> list[Ending]:
    """How every run ended, from that sweep's id on."""
    query = (
        select(
            models.Run.case_id,
            models.Sweep.hardware_id,
            models.Run.source,
            models.Run.sweep_id,
            models.Run.round,
            models.Run.attempt,
            models.Run.status,
            models.Run.reason,
        )
        .join(models.Sweep, models.Run.sweep_id == models.Sweep.id)
        .where(models.Run.sweep_id >= first_sweep, models.Run.source.in_(SOURCES))
    )
    return _tuples(reader, query)


def red_gates(reader: Reader, first_sweep: int) -> list[RedGate]:
    """Every gate that was not passed, from that sweep's id on."""
    query = (
        select(
            models.Run.case_id,
            models.Sweep.hardware_id,
            models.Run.source,
            models.Run.sweep_id,
            models.Gate.name,
            models.Gate.detail,
        )
        .join(models.Run, models.Gate.run_id == models.Run.id)
        .join(models.Sweep, models.Run.sweep_id == models.Sweep.id)
        .where(models.Run.sweep_id >= first_sweep, models.Gate.passed.is_(False))
    )
    return _tuples(reader, query)


def sample_units(reader: Reader) -> list[tuple[str, str]]:
    """Every unit in which samples of a metric are stored: (metric, unit)."""
    query = select(models.Samples.metric, models.Samples.unit).distinct()
    return _tuples(reader, query)


def devices(reader: Reader) -> dict[int, str]:
    """The name of every device by its id."""
    return dict(_tuples(reader, select(models.Hardware.id, models.Hardware.name)))


def case_ids(reader: Reader) -> dict[int, str]:
    """The hash of every case by its id."""
    return dict(_tuples(reader, select(models.Case.id, models.Case.hash)))


def _tuples(reader: Reader, query: Select[*tuple[Any, ...]]) -> list[Any]:
    """Rows as the database's own driver gives them: no objects are made of half a million."""
    plain = query.compile(reader.engine, compile_kwargs={"literal_binds": True})
    with told(reader.url), reader.engine.connect() as connection:
        cursor = connection.exec_driver_sql(str(plain)).cursor
        assert cursor is not None, "a SELECT has rows"
        return list(cursor.fetchall())


def sequence_of(rows: Sequence[NightRow]) -> dict[int, int]:
    """Where each sweep stands in the order of nights, by its id."""
    return {row.sweep_id: place for place, row in enumerate(rows)}
