"""Keep incidents, what was done about them and who was told."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "incidents",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("derived_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False, server_default="1"),
        sa.Column("state_number", sa.Integer(), nullable=False, server_default="1"),
        sa.Column("last_good", sa.Text(), nullable=False),
        sa.Column("commit", sa.Text(), nullable=False),
        sa.Column("first_seen", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("assignee", sa.Text(), nullable=False, server_default=""),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("snoozed_until", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False, server_default=""),
        sa.Column("accepted_until", sa.BigInteger(), nullable=True),
        sa.Column("duplicate_of", ID, nullable=True),
        sa.Column("issue_url", sa.Text(), nullable=False, server_default=""),
        sa.Column("fix_sha", sa.Text(), nullable=False, server_default=""),
        sa.Column("culprit_sha", sa.Text(), nullable=False, server_default=""),
        sa.Column("verified_at", sa.BigInteger(), nullable=True),
        sa.Column("gone_at", sa.BigInteger(), nullable=True),
        sa.Column("pinned", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("headline", sa.Text(), nullable=False),
        sa.Column("cost", sa.Double(), nullable=True),
        sa.Column("series_count", sa.Integer(), nullable=False),
        sa.Column("say", sa.Text(), nullable=False, server_default="note"),
        sa.Column("standing", sa.Boolean(), nullable=False, server_default=sa.true()),
        sa.Column("measured_at", sa.BigInteger(), nullable=True),
        sa.Column("paged_at", sa.BigInteger(), nullable=True),
        sa.Column("triaged_at", sa.BigInteger(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False, server_default="{}"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_incidents_project_id"),
        sa.ForeignKeyConstraint(["duplicate_of"], ["incidents.id"], name="fk_incidents_duplicate_of"),
        sa.PrimaryKeyConstraint("id", name="pk_incidents"),
        sa.UniqueConstraint("project_id", "number", name="uq_incidents_project_id"),
    )
    op.create_index("ix_incidents_commit", "incidents", ["project_id", "commit"])
    op.create_index("ix_incidents_derived", "incidents", ["project_id", "derived_id"])
    op.create_index("ix_incidents_state", "incidents", ["project_id", "state", "id"])
    op.create_table(
        "looks",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("looked_at", sa.BigInteger(), nullable=False),
        sa.Column("pages_per_week", sa.Integer(), nullable=False),
        sa.Column("retests", sa.Text(), nullable=False),
        sa.Column("creeps", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_looks_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_looks"),
        sa.UniqueConstraint("project_id", name="uq_looks_project_id"),
    )
    op.create_table(
        "incident_members",
        sa.Column("id", ID, nullable=False),
        sa.Column("incident_id", ID, nullable=False),
        sa.Column("series_id", ID, nullable=False),
        sa.Column("commit", sa.Text(), nullable=False),
        sa.Column("last_good", sa.Text(), nullable=False),
        sa.Column("rel", sa.Double(), nullable=False),
        sa.Column("before", sa.Double(), nullable=False),
        sa.Column("after", sa.Double(), nullable=False),
        sa.Column("added_by", sa.Text(), nullable=False),
        sa.Column("dropped_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["incident_id"], ["incidents.id"], name="fk_incident_members_incident_id"),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_incident_members_series_id"),
        sa.PrimaryKeyConstraint("id", name="pk_incident_members"),
        sa.UniqueConstraint("incident_id", "series_id", name="uq_incident_members_incident_id"),
    )
    op.create_index("ix_incident_members_series_id", "incident_members", ["series_id"])
    op.create_table(
        "incident_events",
        sa.Column("id", ID, nullable=False),
        sa.Column("incident_id", ID, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("after", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["incident_id"], ["incidents.id"], name="fk_incident_events_incident_id"),
        sa.PrimaryKeyConstraint("id", name="pk_incident_events"),
    )
    op.create_index("ix_incident_events_incident_id", "incident_events", ["incident_id"])
    op.create_table(
        "ledger",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("commit", sa.Text(), nullable=False),
        sa.Column("series_id", ID, nullable=False),
        sa.Column("rel", sa.Double(), nullable=False),
        sa.Column("before", sa.Double(), nullable=False),
        sa.Column("after", sa.Double(), nullable=False),
        sa.Column("incident_id", ID, nullable=True),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("accepted", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_ledger_project_id"),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_ledger_series_id"),
        sa.ForeignKeyConstraint(["incident_id"], ["incidents.id"], name="fk_ledger_incident_id"),
        sa.PrimaryKeyConstraint("id", name="pk_ledger"),
        sa.UniqueConstraint("series_id", "commit", name="uq_ledger_series_id"),
    )
    op.create_index("ix_ledger_commit", "ledger", ["project_id", "commit"])
    op.create_index("ix_ledger_incident_id", "ledger", ["incident_id"])
    op.create_table(
        "quarantined_benchmarks",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("benchmark", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False, server_default=""),
        sa.Column("rate", sa.Double(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("released_at", sa.BigInteger(), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_quarantined_benchmarks_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_quarantined_benchmarks"),
    )
    op.create_index("ix_quarantined_benchmarks_name", "quarantined_benchmarks", ["project_id", "benchmark"])
    op.create_table(
        "expectations",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("suite", sa.Text(), nullable=False),
        sa.Column("machine_id", ID, nullable=False),
        sa.Column("branch", sa.Text(), nullable=False, server_default=""),
        sa.Column("every_s", sa.Double(), nullable=True),
        sa.Column("set_by", sa.Text(), nullable=False, server_default="learned"),
        sa.Column("series", sa.Integer(), nullable=False),
        sa.Column("last_run_at", sa.BigInteger(), nullable=True),
        sa.Column("muted", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_expectations_project_id"),
        sa.ForeignKeyConstraint(["machine_id"], ["machines.id"], name="fk_expectations_machine_id"),
        sa.PrimaryKeyConstraint("id", name="pk_expectations"),
        sa.UniqueConstraint("project_id", "suite", "machine_id", "branch", name="uq_expectations_project_id"),
    )
    op.create_table(
        "destinations",
        sa.Column("id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False, server_default=""),
        sa.Column("routes", sa.Text(), nullable=False, server_default="{}"),
        sa.Column("quiet", sa.Text(), nullable=False, server_default="{}"),
        sa.Column("digest", sa.Text(), nullable=False, server_default=""),
        sa.Column("enabled", sa.Boolean(), nullable=False, server_default=sa.true()),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_destinations_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_destinations"),
        sa.UniqueConstraint("project_id", "name", name="uq_destinations_project_id"),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", ID, nullable=False),
        sa.Column("uid", sa.String(length=32), nullable=False),
        sa.Column("destination_id", ID, nullable=False),
        sa.Column("incident_id", ID, nullable=False),
        sa.Column("state_number", sa.Integer(), nullable=False),
        sa.Column("not_before", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("claimed_by", sa.Text(), nullable=False, server_default=""),
        sa.Column("claim", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("batch", sa.Text(), nullable=False, server_default=""),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("sent_at", sa.BigInteger(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=False, server_default=""),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["destination_id"], ["destinations.id"], name="fk_deliveries_destination_id"),
        sa.ForeignKeyConstraint(["incident_id"], ["incidents.id"], name="fk_deliveries_incident_id"),
        sa.PrimaryKeyConstraint("id", name="pk_deliveries"),
        sa.UniqueConstraint(
            "destination_id", "incident_id", "state_number", name="uq_deliveries_destination_id"
        ),
        sa.UniqueConstraint("uid", name="uq_deliveries_uid"),
    )
    op.create_index("ix_deliveries_state", "deliveries", ["state", "not_before"])


def downgrade() -> None:
    op.drop_table("deliveries")
    op.drop_table("destinations")
    op.drop_table("expectations")
    op.drop_table("quarantined_benchmarks")
    op.drop_table("ledger")
    op.drop_table("incident_events")
    op.drop_table("incident_members")
    op.drop_table("looks")
    op.drop_table("incidents")
