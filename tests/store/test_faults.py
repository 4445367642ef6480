"""Everything a user can get wrong about a database gets one sentence and its exit code."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL, text
from sqlalchemy.exc import DBAPIError

from harness.errors import InfrastructureError, UsageError
from harness.run import RunRecord
from harness.store import SweepStart, engines, faults, open_reader, open_store
from harness.suite.case import Case

MakeCase = Callable[..., Case]
MakeRun = Callable[..., RunRecord]
MakeSweep = Callable[..., SweepStart]

NOBODY = 65534


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("missing/store.db", "there is no folder .*missing; make it, or name another with --db"),
        (".", "is a folder; name a file in it with --db"),
        (":memory:", "':memory:' names no file"),
        ("sqlite://", "'sqlite' names no file"),
        ("oracel://host/x", "unknown kind of database 'oracel' in oracel://host/x"),
        ("mysql+pymysqlx://host/x", "unknown kind of database 'mysql.pymysqlx'"),
        ("oracle+oracledb://host/x", "driver of oracle.* is not installed: .*install it with pip"),
        ("no url://at all", "'no url://at all' is not a database; give a file or"),
        ("foo://bar:baz:qux", "'foo://bar:baz:qux' is not a database; give a file or"),
        ("long" * 100, "there is no database|cannot be opened"),
    ],
)
def test_a_bad_name_gets_a_sentence(tmp_path: Path, name: str, sentence: str) -> None:
    target = name if ":" in name else str(tmp_path / name)
    for open_it in (open_store, open_reader):
        with pytest.raises(UsageError, match=sentence) as caught:
            open_it(target)
        assert caught.value.exit_code == 2


def test_a_folder_that_was_removed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative name in a shell whose folder is gone ended in a traceback."""
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(UsageError, match="the current folder was removed"):
        open_reader("x.db")


def test_a_missing_file_is_made_only_where_asked(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with pytest.raises(UsageError, match=r"there is no database .*store.db; 'harness sweep SUITE'"):
        open_reader(str(path))
    with pytest.raises(UsageError, match="there is no database"):
        open_store(str(path), create=False)
    assert not path.exists()
    open_store(str(path)).close()
    assert path.exists()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to have a header " * 40)
    before = path.read_bytes()
    for open_it in (open_store, open_reader):
        with pytest.raises(UsageError, match=r"notes.txt is not a database; name another file"):
            open_it(str(path))
    assert path.read_bytes() == before


def test_a_damaged_file(
    tmp_path: Path, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    path = tmp_path / "store.db"
    with open_store(str(path)) as store:
        store.save_run(store.begin_sweep(make_sweep()), make_case(), make_run(make_case()))
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"store.db is damaged"), open_reader(str(path)) as reader:
        reader.runs(1)


def test_a_full_disk_while_saving(
    tmp_path: Path, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    case = make_case()
    with open_store(str(tmp_path / "store.db")) as store:
        sweep_id = store.begin_sweep(make_sweep())
        store.save_run(sweep_id, case, make_run(case))
        with store.engine.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
        saved = 1
        with pytest.raises(UsageError, match=r"no disk space left to write .*store.db"):  # noqa: PT012
            for round_ in range(1, 100):
                store.save_run(sweep_id, case, make_run(case, round_))
                saved += 1
    with open_reader(str(tmp_path / "store.db")) as reader:
        # The run that did not fit is wholly absent.
        assert [run.record.round for run in reader.runs(sweep_id)] == list(range(saved))
        assert reader.info().counts["metric"] == 3 * saved


def test_an_io_error_on_a_full_disk_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite says only "disk I/O error" when it cannot enlarge the index of its log."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    url = engines.parse(str(tmp_path / "store.db"))
    with pytest.raises(InfrastructureError, match="failed: disk I/O error; check its disk"):
        _raise(url, error)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=0))
    with pytest.raises(UsageError, match="no disk space left"):
        _raise(url, error)


def test_a_locked_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "BUSY_SECONDS", 0.05)
    path = str(tmp_path / "store.db")
    with open_store(path) as store, store.engine.begin():
        with pytest.raises(InfrastructureError, match="stayed locked by another process") as caught:
            open_store(path)
        # Readers do not wait for writers.
        open_reader(path).close()
    assert caught.value.exit_code == 4


def test_a_fresh_file_that_is_locked_is_waited_for(tmp_path: Path) -> None:
    """Turning on the write-ahead log fails at once on a locked file, whatever the busy timeout."""
    path = tmp_path / "store.db"
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("CREATE TABLE alembic_version (version_num TEXT)")
    holder.execute("BEGIN EXCLUSIVE")
    release = threading.Timer(0.3, holder.execute, ("ROLLBACK",))
    release.start()
    open_store(str(path)).close()
    release.join()
    holder.close()


def test_a_reader_cannot_write(url: str) -> None:
    open_store(url).close()
    with (
        open_reader(url) as reader,
        pytest.raises((UsageError, DBAPIError), match=r"read-only"),
        faults.told(reader.url),
        reader.engine.begin() as connection,
    ):
        connection.execute(text("DELETE FROM sweep"))


def test_a_server_that_does_not_answer_is_infrastructure() -> None:
    pytest.importorskip("psycopg", reason="no driver for PostgreSQL is installed")
    with pytest.raises(InfrastructureError, match=r"postgresql\+psycopg://me:\*\*\*@127.0.0.1:1/x"):
        open_store("postgresql+psycopg://me:secret@127.0.0.1:1/x")


@pytest.fixture
def read_only_folder(make_sweep: MakeSweep) -> Iterator[Path]:
    """A folder with a database, neither of which this process may write."""
    folder = Path(tempfile.mkdtemp(prefix="harness-"))
    with open_store(str(folder / "store.db")) as store:
        store.begin_sweep(make_sweep())
    (folder / "store.db").chmod(0o444)
    folder.chmod(0o555)
    is_root = os.geteuid() == 0
    if is_root:
        # Nothing is read-only to root.
        os.seteuid(NOBODY)
    yield folder
    if is_root:
        os.seteuid(0)
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_read_only_folder(read_only_folder: Path) -> None:
    with pytest.raises(UsageError, match=r"store.db or its folder is read-only; name a writable"):
        open_store(str(read_only_folder / "store.db"))
    with pytest.raises(UsageError, match=r"new.db cannot be opened; check that you may write"):
        open_store(str(read_only_folder / "new.db"))
    # Published results can still be read.
    with open_reader(str(read_only_folder / "store.db")) as reader:
        assert reader.sweep("last").suite == "decode"


def _raise(url: URL, error: sqlite3.Error) -> None:
    with faults.told(url):
        raise error


def test_a_file_that_is_removed_in_use_takes_no_more_runs(
    tmp_path: Path, make_case: MakeCase, make_run: MakeRun, make_sweep: MakeSweep
) -> None:
    """A sweep went on for 22 runs after its database was deleted, and all of them were lost."""
    path = tmp_path / "store.db"
    case = make_case()
    with open_store(str(path)) as store:
        sweep_id = store.begin_sweep(make_sweep())
        path.unlink()
        with pytest.raises(UsageError, match=r"store\.db was removed while it was in use"):
            store.save_run(sweep_id, case, make_run(case))
