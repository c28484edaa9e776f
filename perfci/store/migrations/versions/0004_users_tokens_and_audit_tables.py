"""Remember who may do what in which project, and who did what."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

ADDED = (
    "visibility",
    "version",
    "settings",
    "created_at",
    "archived_at",
    "repository",
    "repository_id",
    "owner_id",
)

TRIGGERS = {"audit_is_kept": "DELETE", "audit_is_not_edited": "UPDATE"}

SENTENCE = "what was done stays written: a line of the audit log is never deleted or edited"


def upgrade() -> None:
    op.add_column("projects", sa.Column("visibility", sa.Text(), nullable=False, server_default="private"))
    op.add_column("projects", sa.Column("version", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("projects", sa.Column("settings", sa.Text(), nullable=False, server_default="{}"))
    op.add_column("projects", sa.Column("created_at", sa.BigInteger(), nullable=True))
    op.add_column("projects", sa.Column("archived_at", sa.BigInteger(), nullable=True))
    op.add_column("projects", sa.Column("repository", sa.Text(), nullable=False, server_default=""))
    op.add_column("projects", sa.Column("repository_id", sa.BigInteger(), nullable=True))
    op.add_column("projects", sa.Column("owner_id", sa.BigInteger(), nullable=True))
    op.create_table(
        "users",
        sa.Column("id", ID, nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("disabled_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("provider", "subject", name="uq_users_provider"),
    )
    op.create_table(
        "memberships",
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False, server_default="-1"),
        sa.Column("role", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_memberships_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_memberships"),
        sa.UniqueConstraint("user_id", "project_id", name="uq_memberships_user_id"),
    )
    op.create_index("ix_memberships_project_id", "memberships", ["project_id"])
    op.create_table(
        "logins",
        sa.Column("id", ID, nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("user_id", ID, nullable=False),
        sa.Column("csrf", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("checked_at", sa.BigInteger(), nullable=False),
        sa.Column("grant", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_logins_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_logins"),
        sa.UniqueConstraint("secret_hash", name="uq_logins_secret_hash"),
    )
    op.create_index("ix_logins_user_id", "logins", ["user_id"])
    op.create_table(
        "tokens",
        sa.Column("id", ID, nullable=False),
        sa.Column("uid", sa.String(length=12), nullable=False),
        sa.Column("project_id", ID, nullable=False, server_default="-1"),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("last4", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("secret_hash", name="uq_tokens_secret_hash"),
        sa.UniqueConstraint("uid", name="uq_tokens_uid"),
    )
    op.create_index("ix_tokens_project_id", "tokens", ["project_id"])
    op.create_table(
        "audit",
        sa.Column("id", ID, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("project_id", ID, nullable=False, server_default="-1"),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    op.create_index("ix_audit_project", "audit", ["project_id", "id"])
    op.create_table(
        "secrets",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_secrets"),
    )
    _guard_audit()


def _guard_audit() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for name, event in TRIGGERS.items():
            op.execute(
                f"CREATE TRIGGER {name} BEFORE {event} ON audit BEGIN SELECT RAISE(ABORT, '{SENTENCE}'); END"
            )
        return
    op.execute(
        "CREATE FUNCTION refuse_to_forget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"RAISE EXCEPTION '{SENTENCE}' USING ERRCODE = 'integrity_constraint_violation'; END $$"
    )
    for name, event in TRIGGERS.items():
        each = "FOR EACH ROW EXECUTE FUNCTION refuse_to_forget()"
        op.execute(f"CREATE TRIGGER {name} BEFORE {event} ON audit {each}")
    op.execute(
        "CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_forget()"
    )


def downgrade() -> None:
    op.drop_table("secrets")
    op.drop_table("audit")
    op.drop_table("tokens")
    op.drop_table("logins")
    op.drop_table("memberships")
    op.drop_table("users")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION refuse_to_forget()")
    for name in reversed(ADDED):
        op.drop_column("projects", name)
