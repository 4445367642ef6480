"""`harness rerun`: make one stored run again by hand, and hold it beside the old one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.listing import Database, Row, Table, print_table
from harness.errors import UsageError
from harness.exit_codes import ExitCode

if TYPE_CHECKING:
    from harness.hardware.identity import HardwareRow
    from harness.run import RunRecord
    from harness.store import StoredRun, SweepRow
    from harness.worker.job import Job


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def rerun(
        run: Annotated[int, typer.Argument(metavar="RUN", help="A stored run's number.")],
        db: Database = None,
        store: Annotated[
            bool, typer.Option("--store", help="Store it, as a sweep of its own.")
        ] = False,
        lock: Annotated[
            Path | None, typer.Option(envvar="HARNESS_LOCK", hidden=True, help="The lock's file.")
        ] = None,
    ) -> None:
        """Repeat a stored run with the same seed, round and settings; print old beside new.

        Nothing is stored unless asked for. Ends with 1 where the new run is not good.
        """
        from harness.hardware.detection import detect
        from harness.store import open_reader
        from harness.sweep.executor import LocalExecutor
        from harness.sweep.interruption import Interruption, StopRequestedError
        from harness.sweep.lock import DeviceLock
        from harness.sweep.session import machine_lock

        with open_reader(db) as reader:
            old, sweep_id = reader.run(run)
            row = reader.sweep(sweep_id)
        if old.source != "measured":
            raise UsageError(f"run {run} was not measured but {old.source}; it cannot be repeated")
        hardware = detect(row.hardware.profile)
        job = _job(old, row, hardware)
        with DeviceLock(lock or machine_lock()), Interruption() as interruption:
            typer.echo(f"{old.case.title}, round {job.round}, as in sweep {sweep_id}", err=True)
            try:
                new = LocalExecutor(interruption).submit(job)
            except StopRequestedError:
                raise typer.Exit(interruption.exit_code) from None
        _print(old, new, row, hardware)
        if store:
            _store(db, row, hardware, old, new, job)
        if new.status != "ok":
            raise typer.Exit(ExitCode.NEGATIVE)


def _job(old: StoredRun, row: SweepRow, hardware: HardwareRow) -> Job:
    """The job of the stored run: its sweep's suite and command line say how it was measured."""
    from harness import registry
    from harness.hardware.calibration import stored
    from harness.hardware.ceilings import InForce
    from harness.suite import Suite, document, override, with_profile
    from harness.sweep.resume import given
    from harness.worker.job import Job

    plugin_paths = given(row.argv, "--plugin-path")
    registry.install(plugin_paths)
    name = f"the suite of sweep {row.id}"
    suite = override(Suite.of(document.read(row.suite_text, name)), given(row.argv, "--set"))
    laid = with_profile(suite, row.hardware.profile)
    threads, limits = old.case.threads, row.ceilings or InForce()
    return Job(
        case=old.case,
        measure=laid.measure,
        gate=laid.gate,
        seed=row.seed,
        round=old.record.round,
        order_slot=old.record.order_slot,
        device=hardware.kind,
        plugin_paths=tuple(plugin_paths),
        # A sweep of an older harness did not keep its own.
        ceilings=limits.measured.get(threads) or stored(row.hardware, threads, (old.case.dtype,)),
        datasheet=limits.datasheet,
        slo=laid.slo,
    )


def _print(old: StoredRun, new: RunRecord, row: SweepRow, hardware: HardwareRow) -> None:
    """Old beside new, then what is wrong with the new one."""
    if hardware.identity_hash != row.hardware.identity_hash:
        typer.echo(f"other hardware: {row.hardware.name} then, {hardware.name} now")
    before = {metric.name: metric.value for metric in old.record.metrics}
    after = {metric.name: metric.value for metric in new.metrics}
    rows: list[Row] = [("status", old.record.status, new.status, "")]
    rows += [
        _row(name, before.get(name), after.get(name)) for name in dict.fromkeys([*before, *after])
    ]
    print_table(Table(("", f"run {old.id}", "again", "again / then"), rows))
    if new.reason:
        typer.echo(f"\n{new.reason}")
    for gate in new.gates:
        if not gate.passed:
            typer.echo(f"gate {gate.name}: {gate.observed} where {gate.bound} is allowed")
    if new.status != "ok" and new.stderr_tail:
        typer.echo(f"\nThe worker's last lines:\n{new.stderr_tail}")


def _row(name: str, before: float | None, after: float | None) -> Row:
    from harness.report import units

    def text(number: float | None) -> str:
        return units.NOTHING if number is None else units.value(name, number)

    ratio = f"{after / before:.3f}" if before and after is not None else units.NOTHING
    return (name, text(before), text(after), ratio)


def _store(
    db: str | None, row: SweepRow, hardware: HardwareRow, old: StoredRun, new: RunRecord, job: Job
) -> None:
    """Store the run as a sweep of one run, which no result of the old sweep mixes with."""
    from harness.hardware.ceilings import InForce
    from harness.hardware.revision import revision
    from harness.store import SweepStart, open_store
    from harness.sweep.session import surroundings

    start = SweepStart(
        suite=row.suite,
        suite_hash=row.suite_hash,
        suite_text=row.suite_text,
        argv=("rerun", str(old.id), *row.argv[2:]),
        seed=row.seed,
        started_at=new.started_at,
        hardware=hardware,
        environment=surroundings(),
        revision=revision(),
        ceilings=InForce(
            measured={} if job.ceilings is None else {old.case.threads: job.ceilings},
            datasheet=job.datasheet,
        ),
    )
    with open_store(db) as opened:
        sweep_id = opened.begin_sweep(start)
        run_id = opened.save_run(sweep_id, old.case, new)
        opened.end_sweep(sweep_id, "complete")
    typer.echo(f"\nstored as run {run_id} of sweep {sweep_id}")
