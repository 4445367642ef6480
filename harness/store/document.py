"""Sweeps whole as one JSON file: what a machine without a database of yours hands over.

The file holds the records that the store takes, not its tables, so that one written by an older
harness is read for as long as the records are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import AwareDatetime, ValidationError

from harness.errors import UsageError, printable_path
from harness.records import Record
from harness.run import RunRecord
from harness.store.reader import Reader
from harness.store.rows import Source, SweepStart, SweepStatus
from harness.store.store import Store
from harness.suite.case import Case

FORMAT_VERSION = 1
SUFFIX = ".json"


class DocumentRun(Record):
    """One run, with its case."""

    source: Source
    case: Case
    record: RunRecord


class DocumentSweep(Record):
    """One sweep with all its runs."""

    start: SweepStart
    status: SweepStatus
    ended_at: AwareDatetime | None
    runs: tuple[DocumentRun, ...]


class Document(Record):
    """What one file holds."""

    format_version: int = FORMAT_VERSION
    sweeps: tuple[DocumentSweep, ...]


def of(reader: Reader, sweep_ids: Sequence[int] = ()) -> Document:
    """These sweeps of a database, or all."""
    chosen = [row for row in reader.sweeps() if not sweep_ids or row.id in sweep_ids]
    fields = set(SweepStart.model_fields)
    return Document(
        sweeps=tuple(
            DocumentSweep(
                start=SweepStart.model_validate(row.model_dump(include=fields)),
                status=row.status,
                ended_at=row.ended_at,
                runs=tuple(
                    DocumentRun(source=run.source, case=run.case, record=run.record)
                    for run in reader.runs(row.id)
                ),
            )
            for row in chosen
        )
    )


def write(document: Document, path: Path) -> None:
    """Write a document; UsageError where the file cannot be."""
    try:
        path.write_text(document.model_dump_json() + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{printable_path(path)} cannot be written: {error.strerror}") from None


def read(path: Path) -> Document:
    """The document of a file; UsageError, one sentence, where it holds none."""
    place = printable_path(path)
    try:
        document = Document.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{place} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"{place} holds no sweeps of the harness ({where or 'the file'}: {first['msg']}); "
            "'harness db export --format json' and 'harness sweep --output' write such files"
        ) from None
    if document.format_version > FORMAT_VERSION:
        raise UsageError(
            f"{place} has format {document.format_version}, newer than the {FORMAT_VERSION} of "
            "this harness; update the harness"
        )
    return document


def save(document: Document, store: Store) -> None:
    """Add what a store does not have; doing it twice adds nothing."""
    for sweep in document.sweeps:
        sweep_id = store.begin_sweep(sweep.start)
        for run in sweep.runs:
            store.save_run(sweep_id, run.case, run.record, run.source)
        if sweep.ended_at is not None:
            store.end_sweep(sweep_id, sweep.status, sweep.ended_at)
