"""Sweeps keep the limits that judged them."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this schema."""
    op.add_column("sweep", sa.Column("ceilings", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    """Back to the schema before it."""
    op.drop_column("sweep", "ceilings")
