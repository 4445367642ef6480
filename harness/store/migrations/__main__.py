"""Draft the next migration: what the models have and the newest schema lacks."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from alembic import command

from harness.store import engines, schema


def main(message: str) -> None:
    """Write `versions/vNNNN_<message>.py` from the difference to a fresh database."""
    number = f"{len(schema.known()) + 1:04d}"
    with TemporaryDirectory() as folder:
        engine = engines.writer(engines.parse(str(Path(folder) / "draft.db")))
        if schema.known():
            schema.migrate(engine)
        with engine.begin() as connection:
            command.revision(
                schema.config(connection), message=message, autogenerate=True, rev_id=number
            )
        engine.dispose()
    print(f"drafted migration {number}; read it, then raise HEAD in harness/store/schema.py")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit('usage: python -m harness.store.migrations "what changes"')
    main(sys.argv[1])
