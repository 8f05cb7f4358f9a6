"""Whether a holder wishes search engines to find a certificate, and what learners report about questions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from shardwise.record.tables import Moment

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:

    with op.batch_alter_table("certificate") as table:
        table.add_column(sa.Column("listed", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.create_table(
        "report",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("item", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("said", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("made", Moment(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt"], ["attempt.id"], name=op.f("fk_report_attempt_attempt"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_report")),
    )
    op.create_index(op.f("ix_report_attempt"), "report", ["attempt"], unique=False)


def downgrade() -> None:

    op.drop_index(op.f("ix_report_attempt"), table_name="report")
    op.drop_table("report")
    with op.batch_alter_table("certificate") as table:
        table.drop_column("listed")
