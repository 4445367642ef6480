"""Everything as one flat table: a row for each run and metric, with the fields of its case."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, TextIO

from sqlalchemy import Select, select

from harness.metrics import METRICS
from harness.store import models
from harness.store.faults import told
from harness.store.reader import Reader

# Written as they are stored; `workload` is spread over columns of its own beside them.
_COLUMNS = (
    models.Sweep.id.label("sweep"),
    models.Sweep.uid.label("sweep_uid"),
    models.Sweep.suite,
    models.Sweep.started_at.label("sweep_started_at"),
    models.Sweep.status.label("sweep_status"),
    models.Hardware.name.label("hardware"),
    models.Hardware.identity_hash.label("hardware_hash"),
    models.Environment.hash.label("environment_hash"),
    models.Revision.commit,
    models.Revision.dirty,
    models.Case.hash.label("case_hash"),
    models.Run.label,
    models.Case.stack,
    models.Case.options,
    models.Case.model,
    models.Case.checkpoint_hash,
    models.Case.workload,
    models.Case.backend,
    models.Case.dtype,
    models.Case.threads,
    models.Case.cuda_graph,
    models.Case.cache_state,
    models.Case.definition_version,
    models.Run.id.label("run"),
    models.Run.source,
    models.Run.round,
    models.Run.order_slot,
    models.Run.attempt,
    models.Run.status,
    models.Run.reason,
    models.Run.started_at,
    models.Run.seconds,
    models.Run.compile_seconds,
    models.Metric.name.label("metric"),
    models.Metric.value,
    models.Metric.null_reason,
    models.Metric.n,
    models.Metric.ci_low,
    models.Metric.ci_high,
)


def columns(reader: Reader) -> list[str]:
    """The keys of every row, in their order: those of the workloads that the database knows too."""
    names: list[str] = []
    for column in _COLUMNS:
        if column.name == "workload":
            names += [f"workload_{key}" for key in _workload_keys(reader)]
        else:
            names.append(column.name)
    return [*names, "unit"]


def rows(reader: Reader, sweep_ids: Sequence[int] = ()) -> Iterator[dict[str, Any]]:
    """One row for each run and metric of these sweeps, or of all; every row has the same keys.

    A run without metrics gives one row whose metric is None, so that failures stay visible. Times
    are ISO 8601 in UTC, options are JSON text, units come from the registry of metrics.
    """
    keys = _workload_keys(reader)
    query = _query(sweep_ids).execution_options(yield_per=1000)
    with told(reader.url), reader.engine.connect() as connection:
        for found in connection.execute(query).mappings():
            yield _flat(dict(found), keys)


def write_csv(names: Sequence[str], table: Iterator[dict[str, Any]], file: TextIO) -> int:
    """Write a header line and the rows; how many rows there were. None is an empty field."""
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    count = 0
    for row in table:
        writer.writerow(row)
        count += 1
    return count


def write_json_lines(table: Iterator[dict[str, Any]], file: TextIO) -> int:
    """Write one JSON object a line; how many there were."""
    count = 0
    for row in table:
        file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
        count += 1
    return count


def _workload_keys(reader: Reader) -> list[str]:
    with told(reader.url), reader.engine.connect() as connection:
        workloads = connection.scalars(select(models.Case.workload).order_by(models.Case.id)).all()
    return list(dict.fromkeys(key for workload in workloads for key in workload))


def _query(sweep_ids: Sequence[int]) -> Select[*tuple[Any, ...]]:
    query = (
        select(*_COLUMNS)
        .select_from(models.Run)
        .join(models.Sweep, models.Run.sweep_id == models.Sweep.id)
        .join(models.Case, models.Run.case_id == models.Case.id)
        .join(models.Hardware, models.Sweep.hardware_id == models.Hardware.id)
        .join(models.Environment, models.Sweep.environment_id == models.Environment.id)
        .outerjoin(models.Revision, models.Sweep.revision_id == models.Revision.id)
        .outerjoin(models.Metric, models.Metric.run_id == models.Run.id)
        .order_by(models.Sweep.started_at, models.Run.id, models.Metric.id)
    )
    return query.where(models.Sweep.id.in_(sweep_ids)) if sweep_ids else query


def _flat(found: dict[str, Any], workload_keys: list[str]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in found.items():
        if name == "workload":
            flat |= {f"workload_{key}": _plain(value.get(key)) for key in workload_keys}
        else:
            flat[name] = _plain(value)
    metric = METRICS.get(flat["metric"])
    flat["unit"] = metric and metric.unit
    return flat


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (dict, list)):
        return json.dumps(value, sort_keys=True)
    return value
