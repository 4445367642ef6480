"""`harness regress` on databases: what it reads, stores, prints, and ends with."""

from __future__ import annotations

import json
import math
import random
import shutil
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

import pytest
import typer
from sqlalchemy import insert, select, text
from typer.testing import CliRunner, Result

from harness.analysis.history.branch import read
from harness.analysis.verdict import Verdict, Verdicts
from harness.cli import regress
from harness.errors import UsageError
from harness.hardware.identity import RevisionRow
from harness.store import models, open_reader, open_store
from harness.store.alerts import alerts
from harness.store.alerts import levels as accepted_levels

NIGHTS = 26
STACKS = ("mha", "gqa", "mha+recompute")
FIRST = datetime.now(UTC).replace(microsecond=0) - timedelta(days=NIGHTS - 1, hours=8)
Nightly = Callable[..., Path]


@pytest.fixture(scope="module")
def quiet_nights(tmp_path_factory: pytest.TempPathFactory, example_sweep: ModuleType) -> Path:
    """A database of nights in which nothing changed: two processes a case, 0.3 % apart."""
    path = tmp_path_factory.mktemp("nights") / "quiet.db"
    noise = random.Random(3)
    with open_store(str(path)) as store:
        for night in range(NIGHTS):
            at = FIRST + timedelta(days=night)
            update = {"uid": f"{night:032x}", "started_at": at, "revision": _commit(night)}
            sweep = store.begin_sweep(example_sweep.start().model_copy(update=update))
            if night == 0:
                # The first night through the front door; the others as copies of its rows.
                for number, stack in enumerate(STACKS):
                    for turn in range(2):
                        case = example_sweep.case(stack)
                        record = example_sweep.record(
                            case,
                            turn,
                            metrics={"tpot": 1e6, "throughput": 1e3},
                            started_at=at,
                            order_slot=number,
                        )
                        store.save_run(sweep, case, record)
        with store.engine.begin() as connection:
            runs = connection.execute(select(models.Run.__table__)).mappings().all()
            numbers = connection.execute(select(models.Metric.__table__)).mappings().all()
            added = [
                {**row, "id": row["id"] + len(runs) * n, "sweep_id": n + 1}
                for n in range(1, NIGHTS)
                for row in runs
            ]
            connection.execute(insert(models.Run), added)
            metrics = [
                {
                    **row,
                    "id": row["id"] + len(numbers) * n,
                    "run_id": row["run_id"] + len(runs) * n,
                    "value": row["value"] * math.exp(noise.gauss(0, 0.003)),
                }
                for n in range(1, NIGHTS)
                for row in numbers
            ]
            connection.execute(insert(models.Metric), metrics)
            connection.execute(text("UPDATE sweep SET status = 'complete'"))
    return path


@pytest.fixture
def nightly(quiet_nights: Path, tmp_path: Path) -> Nightly:
    """nightly(*SQL) -> the quiet nights with something changed."""

    def make(*statements: str) -> Path:
        path = tmp_path / "nightly.db"
        shutil.copyfile(quiet_nights, path)
        with sqlite3.connect(path) as plain:
            for statement in statements:
                plain.execute(statement)
        plain.close()
        return path

    return make


def slow(case: int, night: int, factor: float = 1.05) -> str:
    """One case (from 1) is slower from that night (from 0) on."""
    return (
        f"UPDATE metric SET value = value * {factor} WHERE name = 'tpot' AND run_id IN "
        f"(SELECT id FROM run WHERE case_id = {case} AND sweep_id > {night})"
    )


def gone(case: int, night: int) -> list[str]:
    """One case has no runs from that night on."""
    runs = f"SELECT id FROM run WHERE case_id = {case} AND sweep_id > {night}"
    return [
        f"DELETE FROM metric WHERE run_id IN ({runs})",
        f"DELETE FROM run WHERE case_id = {case} AND sweep_id > {night}",
    ]


def _commit(night: int) -> RevisionRow:
    at = FIRST + timedelta(days=night, hours=-1)
    return RevisionRow(repo="r", commit=f"{night:040x}", branch="main", committed_at=at)


def _app() -> typer.Typer:
    app = typer.Typer()
    app.callback()(lambda: None)
    regress.register(app)
    return app


def run(*arguments: str) -> Result:
    return CliRunner().invoke(_app(), ["regress", *arguments], env={"GITHUB_STEP_SUMMARY": ""})


def told(path: Path, *arguments: str) -> tuple[int, Verdicts]:
    out = path.with_suffix(".json")
    done = run("--db", str(path), "--output", str(out), *arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done.exit_code, Verdicts.model_validate_json(out.read_text())


def test_quiet_nights_are_good(nightly: Nightly) -> None:
    code, found = told(nightly())
    assert code == 0
    assert [r.verdict for r in found.rows if r.alarm or r.nominated] == []
    assert len(found.rows) == 2 * len(STACKS)


def test_a_processes_values_narrow_a_night_and_are_no_points(nightly: Nightly) -> None:
    with open_reader(str(nightly())) as reader:
        history = read(reader)
    assert len(history.series) == 2 * len(STACKS)
    for series in history.series:
        assert len(series.values) == NIGHTS
        assert (series.errors < 0.01).all()
        assert len({night.commit for night in history.nights}) == NIGHTS


def test_from_suspicion_to_alarm_to_acknowledgement(nightly: Nightly, tmp_path: Path) -> None:
    path = nightly(slow(2, 18))
    code, found = told(path)
    assert code == 0
    (row,) = [r for r in found.rows if r.nominated]
    assert row.change is not None
    assert row.subject.title.startswith("gqa ")
    assert row.change.id == "1"
    # The same suspicion is not stored twice.
    assert told(path)[1].rows == found.rows
    session = tmp_path / "session.json"
    session.write_text(_session(row, 0.95))
    code, found = told(path, "--confirm", str(session))
    assert code == 1
    assert [r.verdict for r in found.alarms] == ["regressed"]
    # It stays red until somebody fixes or acknowledges it.
    assert told(path)[0] == 1
    done = run("ack", "1", "--reason", "known, #12", "--db", str(path))
    assert done.exit_code == 0, done.output
    code, found = told(path)
    assert code == 0
    assert [r for r in found.rows if r.alarm or r.nominated] == []
    log = run("log", "--db", str(path)).stdout
    assert "acknowledged" in log
    assert "known, #12" in log
    with open_reader(str(path)) as reader:
        assert [a.state for a in alerts(reader)] == ["acknowledged"]
        assert [level.metric for level in accepted_levels(reader)] == ["tpot"]


def test_a_session_that_shows_nothing_alarms_nobody(nightly: Nightly, tmp_path: Path) -> None:
    path = nightly(slow(2, 18))
    (row,) = [r for r in told(path)[1].rows if r.nominated]
    session = tmp_path / "session.json"
    session.write_text(_session(row, 1.001, "same"))
    assert told(path, "--confirm", str(session))[0] == 0
    code, found = told(path)
    assert code == 0
    assert [r.change.state for r in found.rows if r.change] == ["unconfirmed"]


def test_a_dry_run_stores_nothing(nightly: Nightly) -> None:
    path = nightly(slow(2, 18))
    _, found = told(path, "--dry-run")
    assert [r.change.id for r in found.rows if r.nominated and r.change] == [""]
    with open_reader(str(path)) as reader:
        assert alerts(reader) == []


def test_a_case_that_stopped_alarms(nightly: Nightly) -> None:
    code, found = told(nightly(*gone(3, NIGHTS - 1)))
    assert code == 1
    (row,) = found.alarms
    assert row.change is not None
    assert row.change.kind == "stopped"
    assert row.subject.title.startswith("mha+recompute ")


def test_a_level_is_accepted(nightly: Nightly) -> None:
    path = nightly(slow(2, 14))
    done = run("accept", "gqa *", "--reason", "paid for elsewhere", "--db", str(path))
    assert "accepted the level of 2 series" in done.stdout
    assert [r for r in told(path)[1].rows if r.nominated] == []
    assert isinstance(run("accept", "x*", "--reason", "y", "--db", str(path)).exception, UsageError)


@pytest.mark.parametrize("ending", ["txt", "md", "xml", "json"])
def test_every_form_names_the_case(nightly: Nightly, tmp_path: Path, ending: str) -> None:
    path, out, summary = nightly(*gone(3, NIGHTS - 1)), tmp_path / f"told.{ending}", tmp_path / "s"
    done = CliRunner().invoke(
        _app(),
        ["regress", "--db", str(path), "--output", str(out), "--github"],
        env={"GITHUB_STEP_SUMMARY": str(summary)},
    )
    assert done.exit_code == 1
    for text_of in (done.stdout, out.read_text(), summary.read_text()):
        assert "mha+recompute" in text_of


def test_a_session_of_two_revisions_is_no_night(nightly: Nightly) -> None:
    """Nor is a rerun: both look at a few cases, and one of them at old code."""
    path = nightly(*gone(3, NIGHTS - 1), """UPDATE sweep SET argv = '["compare"]' WHERE id = 26""")
    code, found = told(path)
    assert code == 0
    assert dict(found.conditions)["nights"].startswith(f"{NIGHTS - 1},")


def test_a_sweep_of_some_cases_silences_no_other(nightly: Nightly) -> None:
    only = """UPDATE sweep SET argv = '["sweep", "decode", "--only", "gqa*"]' WHERE id = 26"""
    assert told(nightly(*gone(3, NIGHTS - 1), only))[0] == 0


def test_the_commands_that_bear_a_suspicion_out_are_told(nightly: Nightly) -> None:
    (note,) = told(nightly(slow(2, 18)))[1].notes
    assert "harness compare --run 0000" in note
    assert "--only 'gqa B1 P128 N64'" in note
    assert "harness regress --confirm session.json" in note


def test_two_results_of_one_revision_are_two_nights(nightly: Nightly) -> None:
    path = nightly("UPDATE sweep SET revision_id = 1")
    code, found = told(path)
    assert code == 0
    assert dict(found.conditions)["nights"].startswith(f"{NIGHTS},")


def test_a_look_back_is_no_place_in_the_line(nightly: Nightly) -> None:
    """Time that goes backwards: a bisection measured an old commit between two new ones."""
    long_ago = "UPDATE revision SET committed_at = '2020-01-01 00:00:00' WHERE id = 11"
    _, found = told(nightly(long_ago))
    assert dict(found.conditions)["nights"].startswith(f"{NIGHTS - 1},")
    assert ("looks back", "1 sweeps measured a commit older than one before") in [
        (r.title, r.reason) for r in found.refused
    ]


def test_a_branch_off_the_line_is_left_out(nightly: Nightly) -> None:
    path = nightly("UPDATE revision SET branch = 'side' WHERE id = 10")
    _, found = told(path)
    assert "other branches" in [r.title for r in found.refused]
    _, found = told(path, "--branch", "side")
    assert {r.reason for r in found.rows} == {"one night is no history yet"} or not found.measured
    done = run("--db", str(path), "--branch", "sid")
    assert isinstance(done.exception, UsageError)
    assert "there are: main, side" in str(done.exception)


def test_a_commit_that_is_no_more_does_not_matter(nightly: Nightly) -> None:
    """A rebase leaves commits that no checkout has; a tarball has none. Neither is asked for."""
    path = nightly(slow(2, 18), "UPDATE sweep SET revision_id = NULL WHERE id = 18")
    code, found = told(path)
    assert code == 0
    assert [r.nominated for r in found.rows].count(True) == 1


def test_values_in_another_unit_are_refused_by_name(nightly: Nightly) -> None:
    path = nightly(
        "INSERT INTO samples (run_id, metric, unit, codec, n, data) "
        "VALUES (1, 'tpot', 'ms', 'x', 0, x'')"
    )
    code, found = told(path)
    assert code == 0
    (refused,) = found.refused
    assert refused.title == "tpot"
    assert "stored in ms and not in ns" in refused.reason


def test_a_metric_of_a_newer_harness_has_no_direction_and_is_refused(nightly: Nightly) -> None:
    path = nightly("UPDATE metric SET name = 'charm' WHERE name = 'throughput'")
    code, found = told(path)
    assert code == 0
    assert [(r.title, "which way is better" in r.reason) for r in found.refused] == [
        ("charm", True)
    ]


def test_nothing_but_nulls_is_3(nightly: Nightly) -> None:
    path = nightly("UPDATE metric SET value = NULL, null_reason = 'no'")
    assert told(path)[0] == 3


def test_an_empty_database_is_3(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    open_store(str(path)).close()
    code, found = told(path)
    assert code == 3
    assert found.notes == ("there is no sweep to look at yet",)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--confirm", "absent.json"], "cannot read"),
        (["--output", "x.html"], "does not say which form"),
        (["--method", "magic"], "unknown method"),
        (["ack", "99", "--reason", "x"], "there is no alert 99"),
    ],
)
def test_mistakes_are_a_sentence(nightly: Nightly, arguments: list[str], says: str) -> None:
    path = nightly()
    done = run(*arguments, "--db", str(path))
    assert isinstance(done.exception, UsageError)
    assert says in str(done.exception)


def _session(row: Verdict, ratio: float, verdict: str = "regressed") -> str:
    content = {
        "tool": "compare",
        "title": "a against b",
        "at": datetime.now(UTC).isoformat(),
        "rows": [
            {
                "subject": row.subject.model_dump(mode="json"),
                "verdict": verdict,
                "ratio": ratio,
                "ci_low": ratio - 0.01,
                "ci_high": ratio + 0.01,
                "n": 16,
            }
        ],
    }
    return json.dumps(content)
