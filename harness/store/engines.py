"""Two engines on one database: one that writes, one that cannot.

SQLite's writers begin with BEGIN IMMEDIATE: a transaction that reads first and writes later cannot
be upgraded once another one has written, whatever the timeout. But through that engine even a
SELECT takes the write lock, so readers have an engine of their own, opened read-only.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import ConnectionPoolEntry

from harness import paths
from harness.errors import UsageError, printable
from harness.store.faults import shown

BUSY_SECONDS = 30
DEFAULT_FILE = "harness.db"

# NORMAL loses no acknowledged row to a killed process, only to a power cut, and is 3 times faster.
_PRAGMAS = ("synchronous=NORMAL", "foreign_keys=ON")


def parse(text: str | None) -> URL:
    """The database that a user named: a file's path or an SQLAlchemy URL; None is the default.

    Raises:
        UsageError: no URL, a database of an unknown kind, a driver that is not installed, or one
            that would not outlive the process.
    """
    if text is None:
        text = str(paths.results() / DEFAULT_FILE)
    if "://" not in text:
        url = URL.create("sqlite", database=text)
    else:
        try:
            url = make_url(text)
        except (ArgumentError, ValueError):
            raise UsageError(
                f"'{printable(text)}' is not a database; give a file or an SQLAlchemy URL "
                "such as postgresql+psycopg://user@host/name"
            ) from None
    try:
        dialect = url.get_dialect()
        dialect.import_dbapi()
    except NoSuchModuleError:
        raise UsageError(
            f"unknown kind of database '{url.drivername}' in {shown(url)}; "
            "known: sqlite, postgresql+psycopg and SQLAlchemy's others"
        ) from None
    except ImportError as error:
        raise UsageError(
            f"the driver of {shown(url)} is not installed: {error}; install it with pip"
        ) from None
    if dialect.is_async:
        raise UsageError(f"the driver '{url.drivername}' is asynchronous; name a plain one")
    if url.get_backend_name() == "sqlite":
        return url.set(database=str(_file(url)))
    return url


def writer(url: URL) -> Engine:
    """An engine whose transactions take the write lock as they begin."""
    if url.get_backend_name() != "sqlite":
        return create_engine(url)
    # isolation_level None: the driver leaves BEGIN to us.
    engine = create_engine(url, connect_args={"isolation_level": None, "timeout": BUSY_SECONDS})
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin_immediate)
    return engine


def reader(url: URL) -> Engine:
    """An engine that reads while others write, and refuses to write."""
    if url.get_backend_name() == "postgresql":
        return create_engine(url, execution_options={"postgresql_readonly": True})
    if url.get_backend_name() != "sqlite":
        return create_engine(url)
    file = _file(url)
    query = {"mode": "ro", "uri": "true"}
    # A database that nobody has open in a folder that nobody may write: SQLite could not make the
    # index of its write-ahead log there, and needs to be told that the file will not change.
    may_write = os.access(
        file.parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids
    )
    if not may_write and not Path(f"{file}-wal").exists():
        query["immutable"] = "1"
    return create_engine(
        URL.create("sqlite", database=f"file:{quote(os.fsencode(file))}", query=query),
        connect_args={"timeout": BUSY_SECONDS},
    )


def require_file(url: URL, *, may_create: bool) -> None:
    """Raise UsageError where an SQLite file is missing, or its folder; servers are not asked."""
    if url.get_backend_name() != "sqlite":
        return
    file = _file(url)
    # Path.is_dir would raise for a name too long; SQLite says for itself that it cannot open it.
    if not os.path.isdir(file.parent):  # noqa: PTH112
        raise UsageError(f"there is no folder {file.parent}; make it, or name another with --db")
    if os.path.isdir(file):  # noqa: PTH112
        raise UsageError(f"{file} is a folder; name a file in it with --db")
    if not (may_create or os.path.exists(file)):  # noqa: PTH110
        raise UsageError(
            f"there is no database {file}; 'harness sweep SUITE' makes one, --db names another"
        )


def _file(url: URL) -> Path:
    name = url.database or ""
    if name in ("", ":memory:") or name.startswith("file:"):
        raise UsageError(f"'{name or url.drivername}' names no file; give the path of a database")
    try:
        return Path(name).absolute()
    except FileNotFoundError:
        raise UsageError(
            f"the current folder was removed, so '{name}' is no place; change to another folder"
        ) from None


def _set_pragmas(connection: sqlite3.Connection, _entry: ConnectionPoolEntry) -> None:
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    # Turning the log on is the one statement that does not wait for a lock: processes that open a
    # fresh file together would fail at once (seen 4 times in 300).
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
