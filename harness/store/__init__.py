"""The results database: SQLAlchemy models, Alembic migrations, queries.

    with open_store(url) as store:            # creates or upgrades; None is results/harness.db
        sweep_id = store.begin_sweep(start)
        store.save_run(sweep_id, case, record)
    with open_reader(url) as reader:          # a read-only engine of its own
        reader.runs(reader.sweep("last").id)

Importing this imports no SQLAlchemy: commands that only list things answer at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.store.rows import (
    EnvironmentRow,
    HardwareRow,
    HistoryPoint,
    Info,
    RevisionRow,
    Source,
    StoredRun,
    SweepRow,
    SweepStart,
    SweepStatus,
)

if TYPE_CHECKING:
    from harness.store.reader import Reader
    from harness.store.store import Store

__all__ = [
    "EnvironmentRow",
    "HardwareRow",
    "HistoryPoint",
    "Info",
    "RevisionRow",
    "Source",
    "StoredRun",
    "SweepRow",
    "SweepStart",
    "SweepStatus",
    "open_reader",
    "open_store",
]


def open_store(url: str | None = None, *, create: bool = True) -> Store:
    """Open a database for writing, by file or SQLAlchemy URL; None is `results/harness.db`.

    With `create` a missing one is made and an older one upgraded, else both are refused.

    Raises:
        UsageError: no such folder or file, no database, another program's, one of a newer harness,
            a read-only place, a full disk.
        InfrastructureError: a server that cannot be reached, a file that stays locked.
    """
    from harness.store import engines, schema
    from harness.store.faults import shown, told
    from harness.store.store import Store

    where = engines.parse(url)
    engines.require_file(where, may_create=create)
    engine = engines.writer(where)
    try:
        with told(where):
            with engine.connect() as connection:
                found = schema.revision(connection)
                if not create:
                    schema.require_head(connection, shown(where))
            if found != schema.HEAD:
                schema.migrate(engine)
    except BaseException:
        engine.dispose()
        raise
    return Store(where, engine)


def open_reader(url: str | None = None) -> Reader:
    """Open an existing database of our schema for reading, while others may write.

    Raises:
        UsageError: no such file, no database, another program's, an older or a newer schema.
        InfrastructureError: a server that cannot be reached, a file that stays locked.
    """
    from harness.store import engines, schema
    from harness.store.faults import shown, told
    from harness.store.reader import Reader

    where = engines.parse(url)
    engines.require_file(where, may_create=False)
    engine = engines.reader(where)
    try:
        with told(where), engine.connect() as connection:
            schema.require_head(connection, shown(where))
    except BaseException:
        engine.dispose()
        raise
    return Reader(where, engine)
