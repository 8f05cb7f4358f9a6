"""The first shape of the service's database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from shardwise.record.tables import Moment

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:

    op.create_table(
        "account",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("made", Moment(), nullable=False),
        sa.Column("erased", Moment(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_account")),
        sa.UniqueConstraint("email", name=op.f("uq_account_email")),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("made", Moment(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=True),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("about", sa.Text(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_made"), "audit", ["made"], unique=False)
    op.create_table(
        "cohort",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("made", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cohort")),
        sa.UniqueConstraint("name", name=op.f("uq_cohort_name")),
    )
    op.create_table(
        "content",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_content")),
    )
    op.create_table(
        "errand",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("carried", sa.JSON(), nullable=False),
        sa.Column("expires", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_errand")),
    )
    op.create_table(
        "login_link",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("wanted", sa.JSON(), nullable=False),
        sa.Column("made", Moment(), nullable=False),
        sa.Column("expires", Moment(), nullable=False),
        sa.Column("used", Moment(), nullable=True),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_login_link")),
    )
    op.create_index(op.f("ix_login_link_email_made"), "login_link", ["email", "made"], unique=False)
    op.create_table(
        "status_entry",
        sa.Column("certificate", sa.Text(), nullable=False),
        sa.Column("list", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("changed", Moment(), nullable=False),
        sa.PrimaryKeyConstraint("certificate", name=op.f("pk_status_entry")),
        sa.UniqueConstraint("list", "position", name=op.f("uq_status_entry_list_position")),
    )
    op.create_table(
        "identity",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("made", Moment(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account"], ["account.id"], name=op.f("fk_identity_account_account"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_identity")),
        sa.UniqueConstraint("provider", "subject", name=op.f("uq_identity_provider_subject")),
    )
    op.create_index(op.f("ix_identity_account"), "identity", ["account"], unique=False)
    op.create_table(
        "member",
        sa.Column("cohort", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("extra_percent", sa.Integer(), nullable=False),
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("made", Moment(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account"], ["account.id"], name=op.f("fk_member_account_account"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["cohort"], ["cohort.id"], name=op.f("fk_member_cohort_cohort"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("cohort", "account", name=op.f("pk_member")),
    )
    op.create_table(
        "request",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("asked", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("response", sa.JSON(), nullable=False),
        sa.Column("made", Moment(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account"], ["account.id"], name=op.f("fk_request_account_account"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("account", "key", name=op.f("pk_request")),
    )
    op.create_index(op.f("ix_request_made"), "request", ["made"], unique=False)
    op.create_table(
        "sitting",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("exam", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("cohort", sa.Text(), nullable=True),
        sa.Column("opens", Moment(), nullable=False),
        sa.Column("closes", Moment(), nullable=False),
        sa.Column("unlock", sa.Text(), nullable=True),
        sa.Column("supervised", sa.Boolean(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=True),
        sa.Column("cancelled", Moment(), nullable=True),
        sa.Column("made", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["cohort"], ["cohort.id"], name=op.f("fk_sitting_cohort_cohort")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sitting")),
    )
    op.create_index(op.f("ix_sitting_cohort"), "sitting", ["cohort"], unique=False)
    op.create_table(
        "visit",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("made", Moment(), nullable=False),
        sa.Column("expires", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["account"], ["account.id"], name=op.f("fk_visit_account_account"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_visit")),
    )
    op.create_index(op.f("ix_visit_account"), "visit", ["account"], unique=False)
    op.create_table(
        "wish",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("exam", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("made", Moment(), nullable=False),
        sa.ForeignKeyConstraint(["account"], ["account.id"], name=op.f("fk_wish_account_account"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_wish")),
        sa.UniqueConstraint("account", "exam", name=op.f("uq_wish_account_exam")),
    )
    op.create_table(
        "attempt",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("sitting", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("exam", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("seed", sa.Text(), nullable=False),
        sa.Column("policy", sa.JSON(), nullable=False),
        sa.Column("paper", sa.JSON(), nullable=False),
        sa.Column("supervised", sa.Boolean(), nullable=False),
        sa.Column("begun", Moment(), nullable=False),
        sa.Column("minutes", sa.Double(), nullable=False),
        sa.Column("closes", Moment(), nullable=False),
        sa.Column("deadline", Moment(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("ended", Moment(), nullable=True),
        sa.Column("outcome", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(["account"], ["account.id"], name=op.f("fk_attempt_account_account")),
        sa.ForeignKeyConstraint(["sitting"], ["sitting.id"], name=op.f("fk_attempt_sitting_sitting")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempt")),
        sa.UniqueConstraint("sitting", "account", "number", name=op.f("uq_attempt_sitting_account_number")),
    )
    op.create_index(op.f("ix_attempt_account"), "attempt", ["account"], unique=False)
    op.create_index(op.f("ix_attempt_state"), "attempt", ["state"], unique=False)
    op.create_table(
        "answer",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("given", sa.JSON(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("made", Moment(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt"], ["attempt.id"], name=op.f("fk_answer_attempt_attempt"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_answer")),
        sa.UniqueConstraint("attempt", "position", "revision", name=op.f("uq_answer_attempt_position_revision")),
    )
    op.create_table(
        "certificate",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("edition", sa.Integer(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("intent", sa.JSON(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("jwt", sa.Text(), nullable=True),
        sa.Column("made", Moment(), nullable=False),
        sa.Column("issued", Moment(), nullable=True),
        sa.Column("expires", Moment(), nullable=True),
        sa.Column("replaced_by", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["account"], ["account.id"], name=op.f("fk_certificate_account_account")),
        sa.ForeignKeyConstraint(["attempt"], ["attempt.id"], name=op.f("fk_certificate_attempt_attempt")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_certificate")),
        sa.UniqueConstraint("attempt", "edition", name=op.f("uq_certificate_attempt_edition")),
    )
    op.create_index(op.f("ix_certificate_account"), "certificate", ["account"], unique=False)
    op.create_table(
        "submission",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("source", sa.LargeBinary(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("lease", Moment(), nullable=True),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.Column("made", Moment(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt"], ["attempt.id"], name=op.f("fk_submission_attempt_attempt"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_submission")),
        sa.UniqueConstraint("attempt", "task", "revision", name=op.f("uq_submission_attempt_task_revision")),
    )
    op.create_index(op.f("ix_submission_state_made"), "submission", ["state", "made"], unique=False)


def downgrade() -> None:

    op.drop_index(op.f("ix_submission_state_made"), table_name="submission")
    op.drop_table("submission")
    op.drop_index(op.f("ix_certificate_account"), table_name="certificate")
    op.drop_table("certificate")
    op.drop_table("answer")
    op.drop_index(op.f("ix_attempt_state"), table_name="attempt")
    op.drop_index(op.f("ix_attempt_account"), table_name="attempt")
    op.drop_table("attempt")
    op.drop_table("wish")
    op.drop_index(op.f("ix_visit_account"), table_name="visit")
    op.drop_table("visit")
    op.drop_index(op.f("ix_sitting_cohort"), table_name="sitting")
    op.drop_table("sitting")
    op.drop_index(op.f("ix_request_made"), table_name="request")
    op.drop_table("request")
    op.drop_table("member")
    op.drop_index(op.f("ix_identity_account"), table_name="identity")
    op.drop_table("identity")
    op.drop_table("status_entry")
    op.drop_index(op.f("ix_login_link_email_made"), table_name="login_link")
    op.drop_table("login_link")
    op.drop_table("errand")
    op.drop_table("content")
    op.drop_table("cohort")
    op.drop_index(op.f("ix_audit_made"), table_name="audit")
    op.drop_table("audit")
    op.drop_table("account")
