"""The flat table: one row for each run and metric, failures included."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

from harness.run import RunRecord
from harness.store import SweepStart, export, open_reader, open_store
from harness.suite.case import Case

MakeCase = Callable[..., Case]
MakeRun = Callable[..., RunRecord]
MakeSweep = Callable[..., SweepStart]


def _fill(url: str, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep) -> None:
    with open_store(url) as store:
        for day in range(2):
            sweep_id = store.begin_sweep(make_sweep(uid=str(day) * 32, day=day))
            case = make_case(batch=8)
            store.save_run(sweep_id, case, make_run(case))
            store.save_run(
                sweep_id, case, make_run(case, 1, status="crashed", reason='signal 11, "core"')
            )


def test_both_formats_hold_the_same_rows(
    url: str, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    _fill(url, make_case, make_run, make_sweep)
    table, lines = io.StringIO(), io.StringIO()
    with open_reader(url) as reader:
        names = export.columns(reader)
        assert export.write_csv(names, export.rows(reader), table) == 8
        assert export.write_json_lines(export.rows(reader), lines) == 8
    from_csv = list(csv.DictReader(io.StringIO(table.getvalue())))
    from_json = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [list(row) for row in from_json] == [names] * 8
    assert from_csv == [
        {name: "" if value is None else str(value) for name, value in row.items()}
        for row in from_json
    ]


def test_a_row_says_what_was_measured_and_where(
    url: str, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    _fill(url, make_case, make_run, make_sweep)
    with open_reader(url) as reader:
        last = reader.sweep("last").id
        tpot, p99, energy, crashed = export.rows(reader, [last])
    case = make_case(batch=8)
    expected = {
        "sweep": last,
        "sweep_started_at": "2026-03-02T22:00:00.123456+00:00",
        "case_hash": case.hash,
        "label": "gqa",
        "stack": "gqa+recompute",
        "workload_kind": "generate",
        "workload_batch": 8,
        "status": "ok",
        "metric": "tpot",
        "unit": "ns",
        "value": 1.5e6,
        "null_reason": None,
    }
    assert {name: tpot[name] for name in expected} == expected
    assert json.loads(tpot["options"])["architecture"] == [
        {"technique": "gqa", "options": {"kv_heads": 2}}
    ]
    assert (p99["value"], p99["null_reason"]) == (None, "needs 100 gaps, has 63")
    assert energy["unit"] == "J/token"
    assert (crashed["status"], crashed["reason"]) == ("crashed", 'signal 11, "core"')
    assert (crashed["metric"], crashed["value"], crashed["unit"]) == (None, None, None)


def test_an_empty_database_gives_a_header(url: str) -> None:
    open_store(url).close()
    table = io.StringIO()
    with open_reader(url) as reader:
        assert export.write_csv(export.columns(reader), export.rows(reader), table) == 0
    assert table.getvalue().startswith("sweep,sweep_uid,suite,")
