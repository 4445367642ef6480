"""`harness db`: upgrade, info, export, merge, import and gc of the database of results."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

import typer

from harness.cli.listing import Database
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.store import SweepRow

SHOWN_SWEEPS = 20


class Format(StrEnum):
    """What `export` writes."""

    CSV = "csv"
    JSONL = "jsonl"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the group `db` to the application."""
    group = typer.Typer(name="db", help="Look after the database of results.", no_args_is_help=True)
    for command in (upgrade, info, export, merge):
        group.command()(command)
    group.command("import")(bring_in)
    group.command("gc")(collect)
    app.add_typer(group)


def upgrade(db: Database = None) -> None:
    """Create the database, or bring it to this harness's schema."""
    from harness.store import open_store, schema
    from harness.store.faults import shown

    before = schema.stored_revision(db)
    with open_store(db) as store:
        place = shown(store.url)
    if before == schema.HEAD:
        typer.echo(f"{place} has schema {schema.HEAD} already")
    elif before is None:
        typer.echo(f"created {place} with schema {schema.HEAD}")
    else:
        typer.echo(f"upgraded {place} from schema {before} to {schema.HEAD}")


def info(db: Database = None) -> None:
    """Say where the database is, what schema it has, how large it is, and what it holds."""
    from harness.store import open_reader

    with open_reader(db) as reader:
        about = reader.info()
        sweeps = reader.sweeps()
    typer.echo(f"database  {about.url}")
    typer.echo(f"schema    {about.revision}")
    if about.size_bytes is not None:
        typer.echo(f"size      {_size(about.size_bytes)}")
    counts = ", ".join(f"{count} {table}" for table, count in sorted(about.counts.items()))
    typer.echo(f"rows      {counts}")
    typer.echo(f"sweeps    {len(sweeps)}")
    if len(sweeps) > SHOWN_SWEEPS:
        typer.echo(f"  ... {len(sweeps) - SHOWN_SWEEPS} older ones")
    for sweep in sweeps[-SHOWN_SWEEPS:]:
        typer.echo(_line(sweep))


def export(
    db: Database = None,
    form: Annotated[
        Format,
        typer.Option(
            "--format", help="csv, jsonl: one object a line; json: sweeps whole, for merge."
        ),
    ] = Format.CSV,
    sweep: Annotated[
        list[str] | None,
        typer.Option("--sweep", metavar="ID", help="A sweep's number or 'last'; may be repeated."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of the terminal.")
    ] = None,
) -> None:
    """Write one row for each run and metric, with the fields of its case; or sweeps whole."""
    from harness.store import document, open_reader
    from harness.store import export as exporting

    with open_reader(db) as reader:
        if form is Format.JSON:
            whole = document.of(reader, [reader.sweep(ref).id for ref in sweep or ()])
            if output is None:
                typer.echo(whole.model_dump_json())
            else:
                document.write(whole, output)
                typer.echo(f"wrote {len(whole.sweeps)} sweeps to {output}")
            return
        table = exporting.rows(reader, [reader.sweep(ref).id for ref in sweep or ()])
        with _opened(output) as file:
            if form is Format.CSV:
                count = exporting.write_csv(exporting.columns(reader), table, file)
            else:
                count = exporting.write_json_lines(table, file)
    if output is not None:
        typer.echo(f"wrote {count} rows to {output}")


def merge(
    source: Annotated[
        str, typer.Argument(metavar="FILE", help="The database, or the JSON file, to take from.")
    ],
    db: Database = None,
) -> None:
    """Add what another database holds and this one does not; doing it twice adds nothing.

    A file that ends in .json holds sweeps as `export --format json` and `sweep --output` write
    them.
    """
    from harness.store import document, open_reader, open_store
    from harness.store import merge as merging
    from harness.store.faults import shown

    if source.endswith(document.SUFFIX):
        _merge_document(Path(source), db)
        return
    with open_reader(source) as reader, open_store(db) as store:
        added = merging.merge(reader, store)
        typer.echo(
            f"added {added.sweeps} sweeps, {added.runs} runs and {added.alerts} alerts "
            f"of {shown(reader.url)} to {shown(store.url)}"
        )


def _merge_document(source: Path, db: str | None) -> None:
    from harness.store import document, open_reader, open_store
    from harness.store.faults import shown

    sweeps = document.read(source)
    with open_store(db) as store:
        with open_reader(db) as reader:
            before = reader.info().counts
            document.save(sweeps, store)
            after = reader.info().counts
        typer.echo(
            f"added {after['sweep'] - before['sweep']} sweeps and {after['run'] - before['run']} "
            f"runs of {source} to {shown(store.url)}"
        )


def bring_in(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="What 'pytest --benchmark-json' wrote, a process."),
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Benchmarks to keep, by full name; may be repeated."),
    ] = None,
    profile: Annotated[
        Literal["cpu", "cuda"] | None, typer.Option(help="The device that they measured.")
    ] = None,
    db: Database = None,
) -> None:
    """Add benchmarks of pytest-benchmark as one sweep, on the machine that measured them.

    Each file is a round: give several, of several processes, for an interval. Doing it twice adds
    nothing.
    """
    from harness.hardware.detection import detect
    from harness.interop.pytest_benchmark.document import read
    from harness.store import open_store
    from harness.store.faults import shown

    found = read(files, detect(profile), only or ())
    with open_store(db) as store:
        sweep = store.begin_sweep(found.start)
        for case, record in found.runs:
            store.save_run(sweep, case, record)
        store.end_sweep(sweep, "complete", found.start.started_at)
        typer.echo(f"{len(found.runs)} runs are sweep {sweep} of {shown(store.url)}")


def collect(
    db: Database = None,
    keep: Annotated[
        int, typer.Option(min=0, metavar="N", help="Newest sweeps whose raw samples stay.")
    ] = 50,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be dropped.")
    ] = False,
) -> None:
    """Drop raw samples of old sweeps and rows that nothing names, and give the space back.

    Sweeps, runs, metrics and gates stay.
    """
    from harness.store import open_store
    from harness.store.retention import collect as dropped

    with open_store(db, create=False) as store:
        done = dropped(store, keep, dry_run=dry_run)
    verb = "would drop" if dry_run else "dropped"
    typer.echo(
        f"{verb} {done.samples} sets of samples ({_size(done.sample_bytes)}) of {done.sweeps} "
        f"sweeps older than the newest {keep}, and {done.orphans} rows that nothing names"
    )
    if not dry_run and done.bytes_before is not None and done.bytes_after is not None:
        typer.echo(f"the file went from {_size(done.bytes_before)} to {_size(done.bytes_after)}")


@contextmanager
def _opened(output: Path | None) -> Iterator[TextIO]:
    if output is None:
        yield sys.stdout
        return
    try:
        with output.open("w", encoding="utf-8", newline="") as file:
            yield file
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}") from None


def _line(sweep: SweepRow) -> str:
    started = f"{sweep.started_at:%Y-%m-%d %H:%M} UTC"
    revision = sweep.revision.commit[:12] if sweep.revision else "no revision"
    return (
        f"  {sweep.id:>4}  {started}  {sweep.suite:<12} {sweep.status:<11} "
        f"{sweep.runs:>5} runs  {sweep.hardware.name}, {revision}"
    )


def _size(count: int) -> str:
    if count < 1024:
        return f"{count} B"
    return f"{count / 1024:.1f} KiB" if count < 1024**2 else f"{count / 1024**2:.1f} MiB"
