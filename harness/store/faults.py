"""What a database's error means to a user: one sentence each, with what to do next."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from harness.errors import HarnessError, InfrastructureError, UsageError

# Less is called a full disk when SQLite can only say "I/O error": one page of its write-ahead
# index is 32 KiB, and a transaction of one run is smaller than this.
_FULL_BELOW_BYTES = 1 << 20

# By SQLite's primary result code (sqlite.org/rescode.html).
_SENTENCES: dict[int, str] = {
    sqlite3.SQLITE_NOTADB: "{place} is not a database; name another file with --db",
    sqlite3.SQLITE_CORRUPT: "{place} is damaged; restore a copy or name another file with --db",
    sqlite3.SQLITE_FULL: "no disk space left to write {place}; free some or name a file elsewhere",
    sqlite3.SQLITE_READONLY: "{place} or its folder is read-only; name a writable one with --db",
    sqlite3.SQLITE_PERM: "{place} or its folder is read-only; name a writable one with --db",
    sqlite3.SQLITE_CANTOPEN: "{place} cannot be opened; check that you may write it and its folder",
}
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def shown(url: URL) -> str:
    """The database as a user names it: a file's path, or a URL without its password."""
    if url.get_backend_name() == "sqlite" and url.database:
        # A reader's URL gives the same file as "file:PATH", with its special characters escaped.
        path = url.database
        return unquote(path.removeprefix("file:")) if path.startswith("file:") else path
    return url.render_as_string(hide_password=True)


@contextmanager
def told(url: URL) -> Iterator[None]:
    """Turn the driver's errors on this database into sentences; pass everything else through."""
    try:
        yield
    except sqlite3.Error as error:
        raise _of_sqlite(url, error) or error from error
    except DBAPIError as error:
        if isinstance(error.orig, sqlite3.Error):
            raise _of_sqlite(url, error.orig) or error from error
        if isinstance(error, (OperationalError, InterfaceError)):
            first = (str(error.orig).strip() or type(error.orig).__name__).splitlines()[0]
            raise InfrastructureError(f"the store {shown(url)} cannot be used: {first}") from error
        raise


def _of_sqlite(url: URL, error: sqlite3.Error) -> HarnessError | None:
    """The sentence for an SQLite error; None where it is a fault of ours and not of the file."""
    place = shown(url)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _BUSY:
        return InfrastructureError(
            f"{place} stayed locked by another process; wait for it to end, then try again"
        )
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and _is_full(place):
        code = sqlite3.SQLITE_FULL
    if code == sqlite3.SQLITE_IOERR:
        return InfrastructureError(f"reading or writing {place} failed: {error}; check its disk")
    sentence = _SENTENCES.get(code)
    return UsageError(sentence.format(place=place)) if sentence else None


def _is_full(place: str) -> bool:
    folder = Path(place).parent
    if not folder.is_dir():
        return False
    usage = shutil.disk_usage(folder)
    # /proc and the like have a size of 0, and are not full.
    return usage.total > 0 and usage.free < _FULL_BELOW_BYTES
