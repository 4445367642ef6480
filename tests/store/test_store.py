"""What goes into the store comes out equal; what nobody could trust does not go in."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from harness.errors import UsageError
from harness.hardware.ceilings import Ceilings, InForce
from harness.run import GateResult, MetricValue, RunRecord, SampleSet
from harness.store import Source, SweepStart, open_reader, open_store
from harness.suite.case import Case

MakeCase = Callable[..., Case]
MakeRun = Callable[..., RunRecord]
MakeSweep = Callable[..., SweepStart]


def test_a_run_comes_out_as_it_went_in(
    url: str, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    case = make_case()
    record = make_run(case)
    with open_store(url) as store:
        sweep_id = store.begin_sweep(make_sweep())
        run_id = store.save_run(sweep_id, case, record)
    with open_reader(url) as reader:
        (stored,) = reader.runs(sweep_id)
        again, its_sweep = reader.run(run_id)
    assert (stored.id, stored.case, stored.record) == (run_id, case, record)
    assert stored.source == "measured"
    assert stored.case.hash == case.hash
    assert (again, its_sweep) == (stored, sweep_id)


def test_a_sweep_comes_out_as_it_went_in(url: str, make_sweep: MakeSweep) -> None:
    limit = Ceilings(bandwidth_bytes_per_s=1e10, flops_per_s={"float32": 1e11}, source="measured")
    start = make_sweep(
        started_at=datetime(2026, 3, 1, 23, 0, tzinfo=timezone(timedelta(hours=2))),
        ceilings=InForce(measured={1: limit, 4: limit}, datasheet=limit),
    )
    with open_store(url) as store:
        sweep_id = store.begin_sweep(start)
        with open_reader(url) as reader:
            assert reader.sweep(sweep_id).status == "running"
        store.end_sweep(sweep_id, "interrupted")
        with open_reader(url) as reader:
            row = reader.sweep("last")
        store.resume_sweep(sweep_id)
        with open_reader(url) as reader:
            assert reader.sweep(str(sweep_id)).ended_at is None
    assert row.status == "interrupted"
    assert row.ended_at is not None
    assert row.started_at.utcoffset() == timedelta(0)
    stored = row.model_dump(exclude={"id", "status", "ended_at", "runs"})
    assert SweepStart.model_validate(stored) == start


def test_a_sweep_outside_a_git_checkout_has_no_revision(url: str, make_sweep: MakeSweep) -> None:
    with open_store(url) as store:
        sweep_id = store.begin_sweep(make_sweep(revision=None))
    with open_reader(url) as reader:
        assert reader.sweep(sweep_id).revision is None


def test_the_latest_calibration_of_a_device_is_kept(url: str, make_sweep: MakeSweep) -> None:
    hardware = make_sweep().hardware
    with open_store(url) as store:
        for uid, calibration in (("1", None), ("2", {"bandwidth": 1.0}), ("3", None)):
            changed = hardware.model_copy(update={"calibration": calibration})
            store.begin_sweep(make_sweep(uid=uid * 32, hardware=changed))
    with open_reader(url) as reader:
        assert {str(sweep.hardware.calibration) for sweep in reader.sweeps()} == {
            "{'bandwidth': 1.0}"
        }
        assert reader.info().counts["hardware"] == 1


def test_saving_twice_stores_once(
    url: str, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    case = make_case()
    with open_store(url) as store:
        first, second = (store.begin_sweep(make_sweep()) for _ in range(2))
        assert first == second
        ids = {store.save_run(first, case, make_run(case)) for _ in range(3)}
        ids_of_rounds = {store.save_run(first, case, make_run(case, round=r)) for r in range(3)}
    assert len(ids) == 1
    assert len(ids_of_rounds) == 3
    with open_reader(url) as reader:
        counts = reader.info().counts
    assert (counts["case"], counts["run"], counts["metric"], counts["gate"]) == (1, 3, 9, 9)


def test_another_run_never_replaces_a_stored_one(
    url: str, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    case = make_case()
    with open_store(url) as store:
        sweep_id = store.begin_sweep(make_sweep())
        store.save_run(sweep_id, case, make_run(case, status="timeout", reason="300 s"))
        with pytest.raises(UsageError, match="save this one as the next attempt"):
            store.save_run(sweep_id, case, make_run(case))
        store.save_run(sweep_id, case, make_run(case, attempt=2))
    with open_reader(url) as reader:
        assert [run.record.status for run in reader.runs(sweep_id)] == ["timeout", "ok"]


def test_each_sweep_keeps_its_own_label_for_one_case(
    url: str, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    """A label is no part of the identity, so one case row serves both; tables show their own."""
    with open_store(url) as store:
        for uid, label in (("1", "gqa"), ("2", "chat")):
            sweep_id = store.begin_sweep(make_sweep(uid=uid * 32))
            case = make_case(label=label)
            store.save_run(sweep_id, case, make_run(case))
    with open_reader(url) as reader:
        labels = [reader.runs(s.id)[0].case.label for s in reader.sweeps()]
        assert reader.info().counts["case"] == 1
        assert [case.label for case in reader.cases().values()] == ["chat"]
    assert labels == ["gqa", "chat"]


def test_a_failed_run_is_a_row_with_its_reason(
    url: str, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    case = make_case()
    record = make_run(case, status="crashed", reason="signal 11", stderr_tail="Segmentation\0fault")
    with open_store(url) as store:
        sweep_id = store.begin_sweep(make_sweep())
        store.save_run(sweep_id, case, record)
    with open_reader(url) as reader:
        (stored,) = reader.runs(sweep_id)
    assert (stored.record.status, stored.record.reason) == ("crashed", "signal 11")
    # PostgreSQL takes no NUL, and a dying process may print one.
    assert stored.record.stderr_tail == "Segmentation\ufffdfault"
    assert stored.record.metrics == []


def test_a_gate_that_saw_nan_says_so(
    url: str, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    """SQLite would turn the NaN into NULL without a word."""
    case = make_case()
    gate = GateResult(
        name="numeric", passed=False, observed=math.nan, bound=math.inf, unit="abs", detail="row 3"
    )
    record = make_run(case, status="gate_failed", reason="numeric", gates=[gate])
    with open_store(url) as store:
        sweep_id = store.begin_sweep(make_sweep())
        store.save_run(sweep_id, case, record)
    with open_reader(url) as reader:
        (stored,) = reader.runs(sweep_id)[0].record.gates
    assert (stored.observed, stored.bound) == (None, None)
    assert stored.detail == "row 3; observed was nan; bound was inf"


def _metric(**fields: Any) -> list[MetricValue]:
    return [MetricValue(**({"name": "tpot", "value": 1.0} | fields))]


@pytest.mark.parametrize(
    ("fields", "source", "sentence"),
    [
        ({"case_hash": "0" * 64}, "measured", "its case_hash 000000000000 is not the case's"),
        ({"started_at": datetime(2026, 1, 1)}, "measured", "no time zone"),
        ({"status": "gate_failed", "metrics": _metric()}, "measured", "may carry no metric"),
        ({"status": "invalid", "metrics": _metric()}, "measured", "and has tpot"),
        ({"status": "predicted"}, "measured", "does not go with source"),
        ({"status": "ok"}, "predicted", "does not go with source"),
        ({"metrics": _metric() * 2}, "measured", "'tpot' is there 2 times"),
        ({"metrics": _metric(value=math.nan)}, "measured", "'tpot' is nan"),
        ({"metrics": _metric(ci_high=math.inf)}, "measured", "'tpot' is inf"),
        ({"metrics": _metric(value=None)}, "measured", "undefined without a null_reason"),
        ({"metrics": _metric(null_reason="no")}, "measured", "and the null_reason 'no'"),
        ({"seconds": math.inf}, "measured", "seconds time is inf"),
        ({"telemetry": {"clock": math.nan}}, "measured", "telemetry is no JSON"),
        (
            {"samples": [SampleSet(metric="tpot", unit="ns", values=[2**63])]},
            "measured",
            "does not fit in 64 bits",
        ),
    ],
)
def test_a_run_that_is_not_sound_is_refused(
    tmp_path: Any,
    make_case: MakeCase,
    make_run: MakeRun,
    make_sweep: MakeSweep,
    fields: dict[str, Any],
    source: Source,
    sentence: str,
) -> None:
    case = make_case()
    with open_store(str(tmp_path / "store.db")) as store:
        sweep_id = store.begin_sweep(make_sweep())
        with pytest.raises(UsageError, match=sentence):
            store.save_run(sweep_id, case, make_run(case, **fields), source)
    with open_reader(str(tmp_path / "store.db")) as reader:
        assert reader.info().counts["run"] == reader.info().counts["case"] == 0


def test_predicted_numbers_stay_apart(
    url: str, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    case = make_case()
    with open_store(url) as store:
        sweep_id = store.begin_sweep(make_sweep())
        store.save_run(sweep_id, case, make_run(case, tpot=1.0))
        predicted = make_run(case, status="predicted", metrics=_metric(value=2.0))
        store.save_run(sweep_id, case, predicted, "predicted")
    with open_reader(url) as reader:
        assert [run.source for run in reader.runs(sweep_id)] == ["measured", "predicted"]
        assert [p.value for p in reader.history(case.hash, "tpot")] == [1.0]
        predictions = reader.history(case.hash, "tpot", source="predicted")
        assert [p.value for p in predictions] == [2.0]
        assert [p.value for p in reader.latest("tpot", source="predicted")] == [2.0]


@pytest.mark.parametrize(("value", "reason"), [("NULL", "NULL"), ("1.0", "'none'")])
def test_the_database_itself_wants_a_reason_for_null(
    url: str,
    make_case: MakeCase,
    make_run: MakeRun,
    make_sweep: MakeSweep,
    value: str,
    reason: str,
) -> None:
    case = make_case()
    statement = (
        "INSERT INTO metric (id, run_id, name, value, null_reason, n) "
        f"VALUES (99, 1, 'e2e', {value}, {reason}, 0)"
    )
    with open_store(url) as store:
        store.save_run(store.begin_sweep(make_sweep()), case, make_run(case))
        with pytest.raises(IntegrityError, match="null_has_reason"), store.engine.begin() as c:
            c.execute(text(statement))


def test_an_edited_case_is_named(
    url: str, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    case = make_case()
    with open_store(url) as store:
        sweep_id = store.begin_sweep(make_sweep())
        store.save_run(sweep_id, case, make_run(case))
        with store.engine.begin() as connection:
            connection.execute(text('UPDATE "case" SET threads = 8'))
    with (
        open_reader(url) as reader,
        pytest.raises(UsageError, match=r"row 1 of table 'case'.*was edited"),
    ):
        reader.runs(sweep_id)


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("UPDATE samples SET codec = 'zstd'", "run 1 cannot be read: samples are stored as 'zstd'"),
        ("UPDATE samples SET data = x'00'", "run 1 cannot be read: samples are damaged"),
        ("UPDATE run SET status = 'fine'", "run 1 cannot be read: status"),
        ("UPDATE \"case\" SET dtype = 'int3'", "is no case this harness knows: dtype"),
        ("UPDATE sweep SET status = 'fine'", "sweep 1 cannot be read: status"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(
    tmp_path: Any,
    make_case: MakeCase,
    make_run: MakeRun,
    make_sweep: MakeSweep,
    statement: str,
    sentence: str,
) -> None:
    case = make_case()
    path = str(tmp_path / "store.db")
    with open_store(path) as store:
        store.save_run(store.begin_sweep(make_sweep()), case, make_run(case))
        with store.engine.begin() as connection:
            connection.execute(text(statement))
    with open_reader(path) as reader, pytest.raises(UsageError, match=sentence):
        reader.runs(reader.sweep(1).id)


def test_names_of_nothing_get_a_sentence(
    url: str, make_sweep: MakeSweep, make_case: MakeCase, make_run: MakeRun
) -> None:
    with open_store(url) as store, open_reader(url) as reader:
        with pytest.raises(UsageError, match="holds no sweep yet"):
            reader.sweep("last")
        with pytest.raises(UsageError, match=r"no run 3 in .*; it holds none yet"):
            reader.run(3)
        store.begin_sweep(make_sweep())
        with pytest.raises(UsageError, match=r"no sweep 99999999999 in .*; the last are: 1"):
            reader.sweep("99999999999")
        with pytest.raises(UsageError, match="'yesterday' names no sweep"):
            reader.sweep("yesterday")
        with pytest.raises(UsageError, match="no sweep 9 in"):
            store.end_sweep(9, "complete")
        with pytest.raises(UsageError, match="no sweep 9 in"):
            store.save_run(9, make_case(), make_run(make_case()))


def test_history_and_latest(
    url: str, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    one, eight = make_case(batch=1), make_case(batch=8)
    with open_store(url) as store:
        # Stored out of order, as after a merge: time decides, not the id.
        for day in (2, 0, 1):
            sweep_id = store.begin_sweep(make_sweep(uid=str(day) * 32, day=day))
            at = {"started_at": make_sweep(day=day).started_at}
            for round_ in range(2):
                store.save_run(sweep_id, one, make_run(one, round_, tpot=10 * day + round_, **at))
            if day == 0:
                store.save_run(sweep_id, eight, make_run(eight, tpot=80, **at))
            else:
                failed = make_run(eight, status="oom", reason="too large", **at)
                store.save_run(sweep_id, eight, failed)
        other = make_sweep().hardware.model_copy(update={"name": "Epyc"})
        sweep_id = store.begin_sweep(make_sweep(uid="3" * 32, day=3, hardware=other))
        store.save_run(sweep_id, one, make_run(one, tpot=99))
    with open_reader(url) as reader:
        history = reader.history(one.hash, "tpot", make_sweep().hardware.identity_hash)
        everywhere = reader.history(one.hash, "tpot")
        undefined = reader.history(one.hash, "itl_p99")
        latest = reader.latest("tpot")
    assert [point.value for point in history] == [0, 1, 10, 11, 20, 21]
    assert [point.round for point in history] == [0, 1] * 3
    assert history[0].sweep_started_at == datetime(2026, 3, 1, 22, 0, 0, 123456, tzinfo=UTC)
    assert history[0].commit == "f" * 40
    assert [point.value for point in everywhere] == [0, 1, 10, 11, 20, 21, 99]
    assert {point.null_reason for point in undefined} == {"needs 100 gaps, has 63"}
    # The newest sweep in which a series was ok, for each series.
    assert sorted(point.value or 0 for point in latest) == [20, 21, 80, 99]


def test_importing_the_store_imports_no_sqlalchemy() -> None:
    code = (
        "import sys, harness.store, harness.cli.db; "
        "print([m for m in ('sqlalchemy', 'alembic', 'torch') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
