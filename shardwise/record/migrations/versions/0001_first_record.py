"""The first shape of the record."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from shardwise.record.tables import Moment

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def owned(table: str, *columns: sa.Column[object] | sa.Constraint) -> None:
    op.create_table(
        table,
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("learner", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("made", Moment(), nullable=False),
        *columns,
        sa.ForeignKeyConstraint(["learner"], ["learner.id"], name=f"fk_{table}_learner_learner"),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
    )


def upgrade() -> None:
    op.create_table(
        "learner",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("key", sa.Text(), nullable=True),
        sa.Column("joined", sa.Text(), nullable=True),
        sa.Column("made", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["joined"], ["learner.id"], name="fk_learner_joined_learner"),
        sa.PrimaryKeyConstraint("id", name="pk_learner"),
    )
    owned(
        "prediction",
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("measure", sa.Text(), nullable=False),
    )
    op.create_index("ix_prediction_learner_unit_question", "prediction", ["learner", "unit", "question"])
    owned(
        "attempt",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("finished", Moment(), nullable=True),
        sa.Column("score", sa.Double(), nullable=True),
    )
    op.create_index("ix_attempt_learner_unit", "attempt", ["learner", "unit"])
    owned(
        "answer",
        sa.Column("attempt", sa.Text(), nullable=True),
        sa.Column("item", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("form", sa.Text(), nullable=False),
        sa.Column("given", sa.JSON(), nullable=True),
        sa.Column("correct", sa.Boolean(), nullable=False),
        sa.Column("credit", sa.Double(), nullable=False),
        sa.Column("misconception", sa.Text(), nullable=True),
        sa.Column("objective", sa.Text(), nullable=True),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["attempt"], ["attempt.id"], name="fk_answer_attempt_attempt"),
    )
    op.create_index("ix_answer_learner_unit", "answer", ["learner", "unit"])
    op.create_index("ix_answer_attempt", "answer", ["attempt"])
    owned(
        "verdict",
        sa.Column("exercise", sa.Text(), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("points", sa.Double(), nullable=False),
        sa.Column("of", sa.Double(), nullable=False),
        sa.Column("failed_at", sa.Text(), nullable=True),
        sa.Column("source_hash", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
    )
    op.create_index("ix_verdict_learner_unit_exercise", "verdict", ["learner", "unit", "exercise"])
    owned(
        "certificate",
        sa.Column("jwt", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
    )
    op.create_index("ix_certificate_learner_unit", "certificate", ["learner", "unit"])


def downgrade() -> None:
    for table in ("certificate", "verdict", "answer", "attempt", "prediction", "learner"):
        op.drop_table(table)
