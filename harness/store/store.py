"""The store that writes: sweeps begin and end, runs are saved, one transaction each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from sqlalchemy import URL, Connection, CursorResult, Engine, insert, select, update
from sqlalchemy.exc import IntegrityError

from harness.errors import UsageError
from harness.run import RunRecord
from harness.store import mapping, models
from harness.store.admission import require_sound
from harness.store.base import Base
from harness.store.faults import shown, told
from harness.store.rows import (
    EnvironmentRow,
    HardwareRow,
    RevisionRow,
    Source,
    SweepStart,
    SweepStatus,
)
from harness.suite.case import Case


class Store:
    """A database open for writing; `harness.store.open_store` makes one. Close it when done."""

    def __init__(self, url: URL, engine: Engine) -> None:
        self.url = url
        self.engine = engine

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin_sweep(self, start: SweepStart) -> int:
        """Store a sweep with status "running"; its id. The same uid gives the same sweep."""
        plain = ("suite", "suite_hash", "suite_text", "seed", "started_at")
        with told(self.url), self.engine.begin() as connection:
            values = {
                **{name: getattr(start, name) for name in plain},
                "argv": list(start.argv),
                "ceilings": start.ceilings and start.ceilings.model_dump(mode="json"),
                "status": "running",
                "hardware_id": _place_hardware(connection, start.hardware),
                "environment_id": _place_environment(connection, start.environment),
                "revision_id": start.revision and _place_revision(connection, start.revision),
            }
            return find_or_add(connection, models.Sweep, {"uid": start.uid}, values)[0]

    def save_run(
        self, sweep_id: int, case: Case, record: RunRecord, source: Source = "measured"
    ) -> int:
        """Store one run with its case, metrics, samples and gates in one transaction; its id.

        Saving the same run again changes nothing and gives the same id.

        Raises:
            UsageError: the run is not sound (see `admission`), the sweep does not exist, another
                run is stored as this round and attempt of the case, or the file was removed.
        """
        require_sound(case, record, source)
        self._require_file()
        with told(self.url), self.engine.begin() as connection:
            if connection.scalar(select(models.Sweep.id).filter_by(id=sweep_id)) is None:
                raise self._no_sweep(sweep_id)
            case_id, _ = find_or_add(
                connection, models.Case, {"hash": case.hash}, mapping.case_values(case)
            )
            key = {
                "sweep_id": sweep_id,
                "case_id": case_id,
                "source": source,
                "round": record.round,
                "attempt": record.attempt,
            }
            values = mapping.run_values(record) | {"label": case.label}
            run_id, added = find_or_add(connection, models.Run, key, values)
            if added:
                _add_children(connection, run_id, record)
                return run_id
            stored = connection.execute(
                select(models.Run.started_at, models.Run.status).filter_by(id=run_id)
            ).one()
            if tuple(stored) != (record.started_at, record.status):
                raise UsageError(
                    f"another run of {case.title} is stored as round {record.round}, attempt "
                    f"{record.attempt} of sweep {sweep_id} (run {run_id}, {stored.status}); "
                    "save this one as the next attempt"
                )
            return run_id

    def end_sweep(self, sweep_id: int, status: SweepStatus, at: datetime | None = None) -> None:
        """Set a sweep's status and end, None is now; UsageError when it does not exist."""
        self._set_status(sweep_id, status, at or datetime.now(UTC))

    def resume_sweep(self, sweep_id: int) -> None:
        """Set a sweep to "running" again; UsageError when it does not exist."""
        self._set_status(sweep_id, "running", None)

    def save_hardware(self, hardware: HardwareRow) -> int:
        """Store a device, or its latest calibration where it is known already; its id."""
        with told(self.url), self.engine.begin() as connection:
            return _place_hardware(connection, hardware)

    def close(self) -> None:
        """Close the database's connections."""
        self.engine.dispose()

    def _set_status(self, sweep_id: int, status: SweepStatus, ended_at: datetime | None) -> None:
        with told(self.url), self.engine.begin() as connection:
            changed = connection.execute(
                update(models.Sweep)
                .where(models.Sweep.id == sweep_id)
                .values(status=status, ended_at=ended_at)
            )
            if changed.rowcount == 0:
                raise self._no_sweep(sweep_id)

    def _require_file(self) -> None:
        """SQLite goes on writing to a file that was removed, and all of that would be lost."""
        file = self.url.database
        if self.url.get_backend_name() == "sqlite" and not Path(str(file)).exists():
            raise UsageError(
                f"{shown(self.url)} was removed while it was in use, and what it held is lost; "
                "begin again"
            )

    def _no_sweep(self, sweep_id: int) -> UsageError:
        return UsageError(f"there is no sweep {sweep_id} in {shown(self.url)}")


def find(connection: Connection, model: type[Base], key: Mapping[str, Any]) -> int | None:
    """The id of the row with that natural key; None where there is none."""
    table = model.__table__
    return connection.scalar(select(table.c.id).filter_by(**key))


def find_or_add(
    connection: Connection, model: type[Base], key: Mapping[str, Any], values: Mapping[str, Any]
) -> tuple[int, bool]:
    """The id of the row with that natural key, and whether it had to be added with `values`."""
    found = find(connection, model, key)
    if found is not None:
        return found, False
    statement = insert(model).values({**values, **key})
    if connection.dialect.name == "sqlite":
        # Writers queue up, so nobody else can have added it. And a savepoint would hide a full
        # disk: that ends the whole transaction, and then there is no savepoint to go back to.
        return _id(connection.execute(statement)), True
    try:
        with connection.begin_nested():
            return _id(connection.execute(statement)), True
    except IntegrityError:
        found = find(connection, model, key)
        if found is None:
            raise
        return found, False


def _id(inserted: CursorResult[Any]) -> int:
    assert inserted.inserted_primary_key is not None
    return int(inserted.inserted_primary_key[0])


def _add_children(connection: Connection, run_id: int, record: RunRecord) -> None:
    for model, rows in (
        (models.Metric, [mapping.metric_values(metric) for metric in record.metrics]),
        (models.Samples, [mapping.samples_values(samples) for samples in record.samples]),
        (models.Gate, [mapping.gate_values(gate) for gate in record.gates]),
    ):
        if rows:
            connection.execute(insert(model), [{"run_id": run_id, **row} for row in rows])


def _place_hardware(connection: Connection, hardware: HardwareRow) -> int:
    key = {"identity_hash": hardware.identity_hash}
    found, _ = find_or_add(connection, models.Hardware, key, hardware.model_dump())
    # Ceilings are measured again from time to time; the row holds the latest.
    if hardware.calibration is not None:
        connection.execute(
            update(models.Hardware)
            .where(models.Hardware.id == found)
            .values(calibration=hardware.calibration)
        )
    return found


def _place_environment(connection: Connection, environment: EnvironmentRow) -> int:
    key = {"hash": environment.hash}
    return find_or_add(connection, models.Environment, key, environment.model_dump())[0]


def _place_revision(connection: Connection, revision: RevisionRow) -> int:
    values = revision.model_dump()
    key = {name: values.pop(name) for name in ("repo", "commit", "diff_hash")}
    return find_or_add(connection, models.Revision, key, values)[0]
