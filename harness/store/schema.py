"""Which schema a database has, and how it gets ours.

Alembic is imported only where there is something to migrate: a database at our revision is
recognised without it.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, inspect, text

from harness.errors import InfrastructureError, UsageError
from harness.store import engines
from harness.store.faults import shown, told

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0003"  # the newest file in migrations/versions (a test compares)
_VERSION_TABLE = "alembic_version"
# One of ours to all servers that know advisory locks: upgrades at the same time queue up.
_UPGRADE_LOCK = 0x6861726E  # "harn"


def known() -> list[str]:
    """Every revision this harness has a migration for, oldest first."""
    folder = resources.files("harness.store.migrations") / "versions"
    found = (re.match(r"v(\d+)_", file.name) for file in folder.iterdir())
    return sorted(match[1] for match in found if match)


def revision(connection: Connection) -> str | None:
    """The schema revision of a database; None for one without tables.

    Raises:
        UsageError: the tables are not ours, or of a harness newer than this one.
    """
    place = shown(connection.engine.url)
    tables = inspect(connection).get_table_names()
    if _VERSION_TABLE not in tables:
        if tables:
            raise UsageError(
                f"{place} belongs to another program (it has a table '{tables[0]}'); "
                "name another database with --db"
            )
        return None
    found = connection.execute(text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalar()  # noqa: S608 (a constant)
    if found is not None and found not in known():
        raise UsageError(
            f"{place} has schema {found}, newer than the {HEAD} of this harness; update the harness"
        )
    return None if found is None else str(found)


def stored_revision(text_of_url: str | None) -> str | None:
    """The schema revision of a database by its name; None where there is no database yet."""
    url = engines.parse(text_of_url)
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        return None
    engine = engines.reader(url)
    try:
        with told(url), engine.connect() as connection:
            return revision(connection)
    finally:
        engine.dispose()


def require_head(connection: Connection, place: str) -> None:
    """Raise UsageError unless the database has exactly our schema."""
    found = revision(connection)
    if found is None:
        raise UsageError(f"{place} is empty; run a sweep or 'harness db upgrade --db {place}'")
    if found != HEAD:
        raise UsageError(
            f"{place} has schema {found}, older than the {HEAD} of this harness; "
            f"run 'harness db upgrade --db {place}'"
        )


def migrate(engine: Engine, target: str = HEAD) -> None:
    """Bring the database up or down to `target`, in one transaction. Safe to run twice at once.

    Foreign keys are off meanwhile on SQLite, which alters a table by copying and dropping it; they
    are checked as a whole before the commit.
    """
    from alembic import command

    with engine.connect() as connection:
        # Inside a transaction the PRAGMA would do nothing.
        _set_foreign_keys(connection, on=False)
        try:
            with connection.begin():
                if connection.dialect.name == "postgresql":
                    connection.execute(text(f"SELECT pg_advisory_xact_lock({_UPGRADE_LOCK})"))
                found = revision(connection) or ""
                if target == "base" or target < found:
                    command.downgrade(config(connection), target)
                else:
                    command.upgrade(config(connection), target)
                _require_parents(connection)
        finally:
            _set_foreign_keys(connection, on=True)


def config(connection: Connection) -> Config:
    """Alembic's configuration for this connection, without an ini file."""
    import io

    from alembic.config import Config

    made = Config(stdout=io.StringIO())
    folder = str(resources.files("harness.store.migrations"))
    made.set_main_option("script_location", folder.replace("%", "%%"))
    made.set_main_option("file_template", "v%%(rev)s_%%(slug)s")
    made.attributes["connection"] = connection
    return made


def _set_foreign_keys(connection: Connection, *, on: bool) -> None:
    if connection.dialect.name == "sqlite":
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.execute(f"PRAGMA foreign_keys={'ON' if on else 'OFF'}")


def _require_parents(connection: Connection) -> None:
    if connection.dialect.name != "sqlite":
        return
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    if broken:
        raise InfrastructureError(
            f"migrating {shown(connection.engine.url)} would leave {len(broken)} rows without "
            f"their parent, first in table {broken[0][0]}; nothing was changed"
        )
