"""Alerts keep their evidence, and levels can be accepted."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this schema."""
    op.create_table(
        "accepted_level",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("case_id", sa.Integer(), nullable=False),
        sa.Column("hardware_id", sa.Integer(), nullable=False),
        sa.Column("source", sa.String(length=200), nullable=False),
        sa.Column("metric", sa.String(length=200), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("level", sa.Double(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["case_id"], ["case.id"], name=op.f("fk_accepted_level_case_id")),
        sa.ForeignKeyConstraint(
            ["hardware_id"], ["hardware.id"], name=op.f("fk_accepted_level_hardware_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_accepted_level")),
        sa.UniqueConstraint(
            "case_id",
            "hardware_id",
            "source",
            "metric",
            "created_at",
            name=op.f("uq_accepted_level_case_id_hardware_id_source_metric_created_at"),
        ),
    )
    source = sa.Column("source", sa.String(length=200), server_default="measured", nullable=False)
    op.add_column("alert", source)
    op.add_column("alert", sa.Column("since", sa.DateTime(timezone=True), nullable=True))
    op.add_column("alert", sa.Column("base", sa.Double(), nullable=True))
    op.add_column("alert", sa.Column("head", sa.Double(), nullable=True))
    op.add_column("alert", sa.Column("confidence", sa.Double(), nullable=True))
    op.create_index("ix_alert_state", "alert", ["state"])


def downgrade() -> None:
    """Back to the schema before it."""
    op.drop_index("ix_alert_state", "alert")
    for name in ("confidence", "head", "base", "since", "source"):
        op.drop_column("alert", name)
    op.drop_table("accepted_level")
