"""The store that reads: sweeps, runs, and the history of a series, while others may write."""

from __future__ import annotations

from pathlib import Path
from typing import Self, cast

from sqlalchemy import URL, ColumnElement, Engine, Select, and_, func, select, true
from sqlalchemy.orm import Session, aliased, joinedload, selectinload

from harness.errors import UsageError
from harness.store import mapping, models, schema
from harness.store.faults import shown, told
from harness.store.rows import HardwareRow, HistoryPoint, Info, Source, StoredRun, SweepRow
from harness.suite.case import Case


class Reader:
    """A database open for reading; `harness.store.open_reader` makes one. Close it when done."""

    def __init__(self, url: URL, engine: Engine) -> None:
        self.url = url
        self.engine = engine

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sweeps(self) -> list[SweepRow]:
        """Every sweep, oldest first."""
        return self._sweeps(_sweeps().order_by(models.Sweep.started_at, models.Sweep.id))

    def sweep(self, ref: int | str = "last") -> SweepRow:
        """The sweep with that id (a number, or its digits), or the one that started last.

        What was compiled for a target measured nothing, and is the last of nothing.

        Raises:
            UsageError: there is none, or `ref` is neither.
        """
        if ref == "last":
            newest = (models.Sweep.started_at.desc(), models.Sweep.id.desc())
            measured = models.Sweep.hardware.has(models.Hardware.kind != "target")
            found = self._sweeps(_sweeps().where(measured).order_by(*newest).limit(1))
            if not found:
                raise UsageError(f"{shown(self.url)} holds no sweep yet; run 'harness sweep SUITE'")
            return found[0]
        if not str(ref).isdecimal():
            raise UsageError(f"'{ref}' names no sweep; give its number, or 'last'")
        # A number that no database could hold is no id either.
        found = self._sweeps(_sweeps().where(models.Sweep.id == min(int(ref), 2**31 - 1)))
        if not found:
            known = ", ".join(str(sweep.id) for sweep in self.sweeps()[-5:])
            raise UsageError(
                f"there is no sweep {ref} in {shown(self.url)}; the last are: {known or 'none'}"
            )
        return found[0]

    def hardware(self, identity_hash: str) -> HardwareRow | None:
        """The device of that identity with its latest calibration; None where there is none."""
        with told(self.url), Session(self.engine) as session:
            query = select(models.Hardware).filter_by(identity_hash=identity_hash)
            row = session.scalars(query).one_or_none()
            return None if row is None else mapping.hardware_of(row)

    def runs(self, sweep_id: int) -> list[StoredRun]:
        """Every run of a sweep with its samples, in the order in which they were stored."""
        with told(self.url), Session(self.engine) as session:
            query = _runs().where(models.Run.sweep_id == sweep_id).order_by(models.Run.id)
            return [_stored(row) for row in session.scalars(query)]

    def run(self, run_id: int) -> tuple[StoredRun, int]:
        """One run and its sweep's id. Raises UsageError when there is none."""
        with told(self.url), Session(self.engine) as session:
            query = _runs().where(models.Run.id == min(run_id, 2**31 - 1))
            row = session.scalars(query).one_or_none()
            if row is None:
                last = session.scalar(select(func.max(models.Run.id)))
                known = f"the last is {last}" if last else "it holds none yet"
                raise UsageError(f"there is no run {run_id} in {shown(self.url)}; {known}")
            return _stored(row), row.sweep_id

    def cases(self) -> dict[str, Case]:
        """Every case that has a run, by hash, under the label of its newest run."""
        label = (
            select(models.Run.label)
            .where(models.Run.case_id == models.Case.id)
            .order_by(models.Run.started_at.desc(), models.Run.id.desc())
            .limit(1)
            .scalar_subquery()
        )
        query = select(models.Case, label).where(label.is_not(None)).order_by(models.Case.id)
        with told(self.url), Session(self.engine) as session:
            return {row.hash: mapping.case_of(row, label) for row, label in session.execute(query)}

    def history(
        self,
        case_hash: str,
        metric: str,
        hardware_hash: str | None = None,
        source: Source = "measured",
    ) -> list[HistoryPoint]:
        """One metric of one case over time, every round, oldest first; only runs that were ok.

        Without `hardware_hash` the points of all devices: group by it, they are separate series.
        """
        return self._history(
            metric,
            source,
            models.Case.hash == case_hash,
            *([models.Hardware.identity_hash == hardware_hash] if hardware_hash else []),
        )

    def latest(self, metric: str, source: Source = "measured") -> list[HistoryPoint]:
        """One metric of every series (case x hardware): all rounds of its newest sweep."""
        return self._history(metric, source, models.Run.id.in_(_newest_runs(source)))

    def info(self) -> Info:
        """Path, schema revision, size and the number of rows of each table."""
        with told(self.url), self.engine.connect() as connection:
            counts = {
                table.name: connection.scalar(select(func.count()).select_from(table)) or 0
                for table in models.Run.metadata.sorted_tables
            }
            revision = schema.revision(connection) or "none"
        is_file = self.url.get_backend_name() == "sqlite"
        size = Path(str(self.url.database)).stat().st_size if is_file else None
        return Info(url=shown(self.url), revision=revision, size_bytes=size, counts=counts)

    def close(self) -> None:
        """Close the database's connections."""
        self.engine.dispose()

    def _sweeps(self, query: Select[models.Sweep, int]) -> list[SweepRow]:
        with told(self.url), Session(self.engine) as session:
            return [mapping.sweep_of(row, runs) for row, runs in session.execute(query)]

    def _history(
        self, metric: str, source: Source, *conditions: ColumnElement[bool]
    ) -> list[HistoryPoint]:
        query = (
            select(
                models.Run.id.label("run_id"),
                models.Sweep.id.label("sweep_id"),
                models.Case.hash.label("case_hash"),
                models.Hardware.identity_hash.label("hardware_hash"),
                models.Environment.hash.label("environment_hash"),
                models.Revision.commit,
                models.Sweep.started_at.label("sweep_started_at"),
                models.Run.round,
                models.Metric.value,
                models.Metric.null_reason,
                models.Metric.n,
                models.Metric.ci_low,
                models.Metric.ci_high,
            )
            .select_from(models.Run)
            .join(models.Metric, models.Metric.run_id == models.Run.id)
            .join(models.Case, models.Run.case_id == models.Case.id)
            .join(models.Sweep, models.Run.sweep_id == models.Sweep.id)
            .join(models.Hardware, models.Sweep.hardware_id == models.Hardware.id)
            .join(models.Environment, models.Sweep.environment_id == models.Environment.id)
            .outerjoin(models.Revision, models.Sweep.revision_id == models.Revision.id)
            .where(models.Metric.name == metric, models.Run.source == source, *conditions)
            .order_by(models.Sweep.started_at, models.Run.id)
        )
        with told(self.url), self.engine.connect() as connection:
            return [HistoryPoint(**row) for row in connection.execute(query).mappings()]


def _sweeps() -> Select[models.Sweep, int]:
    runs = (
        select(func.count())
        .where(models.Run.sweep_id == models.Sweep.id)
        .correlate(models.Sweep)
        .scalar_subquery()
    )
    return select(models.Sweep, runs).options(
        joinedload(models.Sweep.hardware),
        joinedload(models.Sweep.environment),
        joinedload(models.Sweep.revision),
    )


def _newest_runs(source: Source) -> Select[int]:
    """Ids of the runs of each series in the newest sweep in which it was ok.

    The sweep is asked for each pair of case and hardware by itself, which the index (case,
    started_at) answers at its end; grouping all runs would read every one of them.
    """
    run, sweep = aliased(models.Run), aliased(models.Sweep)
    newest = (
        select(run.sweep_id)
        .join(sweep, run.sweep_id == sweep.id)
        .where(
            run.case_id == models.Case.id,
            sweep.hardware_id == models.Hardware.id,
            run.source == source,
            run.status.in_(("ok", "predicted")),
        )
        .order_by(run.started_at.desc(), run.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    pairs = select(models.Case.id.label("case_id"), newest.label("sweep_id"))
    # The offset keeps planners from folding this into the query around it, which then starts at
    # the other end and reads every run after all.
    newest_sweeps = pairs.join_from(models.Case, models.Hardware, true()).offset(0).subquery()
    return select(run.id).join(
        newest_sweeps,
        and_(run.case_id == newest_sweeps.c.case_id, run.sweep_id == newest_sweeps.c.sweep_id),
    )


def _runs() -> Select[models.Run]:
    return select(models.Run).options(
        joinedload(models.Run.case),
        selectinload(models.Run.metrics),
        selectinload(models.Run.samples),
        selectinload(models.Run.gates),
    )


def _stored(row: models.Run) -> StoredRun:
    return StoredRun(
        id=row.id,
        case=mapping.case_of(row.case, row.label),
        record=mapping.run_of(row),
        source=cast(Source, row.source),
    )
