"""Alembic's entry: run migrations on the connection that `harness.store.schema` hands over."""

from typing import Any, Literal

from alembic import context

from harness.store.base import UtcDateTime
from harness.store.models import Run


def render(kind: str, item: Any, _context: object) -> str | Literal[False]:
    """Write our time as the plain type it is in the database: a migration outlives our code."""
    if kind == "type" and isinstance(item, UtcDateTime):
        return "sa.DateTime(timezone=True)"
    return False


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Run.metadata,
    # SQLite alters tables by copying them; batch mode writes migrations that do.
    render_as_batch=True,
    compare_type=True,
    compare_server_default=True,
    render_item=render,
)
with context.begin_transaction():
    context.run_migrations()
