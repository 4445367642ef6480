"""Predictions beside a sweep: each device has a sweep row of its own, with the same suite and time.

A sweep is of one device, and so is a series; a prediction for another device must meet neither. The
row's natural key follows from the measured sweep's, so that a resumed or merged one finds it again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from harness.predict.rows import record
from harness.predict.target import Target
from harness.store import StoredRun, SweepRow, SweepStart
from harness.store.reader import Reader
from harness.store.store import Store
from harness.suite import Planned


def store_predictions(
    store: Store, start: SweepStart, targets: Iterable[Target], cases: Sequence[Planned]
) -> None:
    """Store what every case would take on every device. Again the same changes nothing."""
    for target in targets:
        beside = start.model_copy(
            update={
                "uid": beside_uid(start.uid, target.name),
                "hardware": target.row,
                "ceilings": None,
            }
        )
        sweep_id = store.begin_sweep(beside)
        for slot, planned in enumerate(cases):
            run = record(planned, target, slot, start.started_at)
            store.save_run(sweep_id, planned.case, run, "predicted")
        store.end_sweep(sweep_id, "complete")


def predictions(reader: Reader, sweep: SweepRow) -> list[tuple[str, list[StoredRun]]]:
    """The catalogue's name of each device predicted beside a sweep, with its runs."""
    found = []
    for row in reader.sweeps():
        name = row.hardware.catalogue_name
        if name is not None and row.uid == beside_uid(sweep.uid, name):
            found.append((name, reader.runs(row.id)))
    return found


def beside_uid(uid: str, name: str) -> str:
    """The natural key of the predictions for a device beside the sweep with this one."""
    return hashlib.sha256(f"{uid} {name}".encode()).hexdigest()[:32]
