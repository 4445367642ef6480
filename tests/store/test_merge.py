"""Merging two databases: idempotent in both directions, by natural keys."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select

from harness.errors import UsageError
from harness.run import RunRecord
from harness.store import SweepStart, models, open_reader, open_store
from harness.store.merge import Merged, merge
from harness.suite.case import Case

MakeCase = Callable[..., Case]
MakeRun = Callable[..., RunRecord]
MakeSweep = Callable[..., SweepStart]


def _content(url: str) -> list[Any]:
    """What a database says, whatever its ids are."""
    with open_reader(url) as reader:
        return sorted(
            (
                sweep.model_dump_json(exclude={"id"}),
                sorted(
                    (r.source, r.case.model_dump_json(), r.record.model_dump_json())
                    for r in reader.runs(sweep.id)
                ),
            )
            for sweep in reader.sweeps()
        )


def _fill(
    url: str, uids: str, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    with open_store(url) as store:
        for uid in uids:
            sweep_id = store.begin_sweep(make_sweep(uid=uid * 32, day=int(uid)))
            for batch in (1, 8):
                case = make_case(batch=batch)
                store.save_run(sweep_id, case, make_run(case, tpot=int(uid) + batch))
            store.end_sweep(sweep_id, "complete")


def test_merging_both_ways_and_again(
    url: str, tmp_path: Path, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    other = str(tmp_path / "other.db")
    _fill(url, "12", make_case, make_run, make_sweep)
    _fill(other, "231", make_case, make_run, make_sweep)
    with open_reader(url) as reader, open_store(other) as store:
        # Sweeps 1 and 2 are there, with the same runs; nothing is new.
        assert merge(reader, store) == Merged()
    with open_reader(other) as reader, open_store(url) as store:
        assert merge(reader, store) == Merged(sweeps=1, runs=2)
        before = reader.info().counts
        assert merge(reader, store) == Merged()
    with open_reader(url) as reader:
        assert reader.info().counts == before
        assert [s.uid[0] for s in reader.sweeps()] == ["1", "2", "3"]
    ended = [_without_ends(content) for content in (_content(url), _content(other))]
    assert ended[0] == ended[1]


def test_a_sweep_that_went_on_is_completed(
    url: str, tmp_path: Path, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    target = str(tmp_path / "target.db")
    case = make_case()
    with open_store(url) as store:
        sweep_id = store.begin_sweep(make_sweep())
        store.save_run(sweep_id, case, make_run(case))
        with open_reader(url) as reader, open_store(target) as into:
            assert merge(reader, into) == Merged(sweeps=1, runs=1)
        store.save_run(sweep_id, case, make_run(case, round=1))
        store.end_sweep(sweep_id, "complete")
    with open_reader(url) as reader, open_store(target) as into:
        assert merge(reader, into) == Merged(sweeps=0, runs=1)
    assert _content(target) == _content(url)


def test_alerts_follow_their_series(
    url: str, tmp_path: Path, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    target = str(tmp_path / "target.db")
    # Other ids in the target, so that a copied id would point elsewhere.
    _fill(target, "7", make_case, make_run, make_sweep)
    case = make_case(batch=32)
    with open_store(url) as store:
        store.save_run(store.begin_sweep(make_sweep()), case, make_run(case))
        alert = {
            "case_id": 1, "hardware_id": 1, "metric": "tpot", "kind": "step", "to_revision_id": 1,
            "effect": 0.05, "cause": "code", "state": "open", "reason": "+5 %",
            "created_at": datetime(2026, 3, 2, tzinfo=UTC),
        }  # fmt: skip
        with store.engine.begin() as connection:
            connection.execute(insert(models.Alert).values(alert))
    with open_reader(url) as reader, open_store(target) as into:
        assert merge(reader, into) == Merged(sweeps=1, runs=1, alerts=1)
        assert merge(reader, into) == Merged()
    with open_reader(target) as reader, reader.engine.connect() as connection:
        query = select(models.Case.hash, models.Alert.from_revision_id, models.Alert.created_at)
        row = connection.execute(query.join(models.Alert)).one()
    assert tuple(row) == (case.hash, None, alert["created_at"])


def test_a_database_is_not_merged_into_itself(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    with (
        open_store(path) as store,
        open_reader(f"sqlite:///{path}") as reader,
        pytest.raises(UsageError, match=r"store.db cannot be merged into itself"),
    ):
        merge(reader, store)


def _without_ends(content: list[Any]) -> list[Any]:
    """Both filled their sweeps at different times of this test."""
    return [(sweep.split('"status"')[0], runs) for sweep, runs in content]
