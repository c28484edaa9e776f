"""Migrate a database to the current schema."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from perfci.store.dialects import lock_for_migration
from perfci.store.tables import (
    access,
    chart_notes,
    deletions,
    explanations,
    github,
    incidents,
    measurement_orders,
    measurements,
    notifications,
    series_archive,
    series_points,
    short_links,
    variant_comparisons,
    verdicts,
    work_queue_and_leases,
)

TABLE_MODULES = (
    measurements,
    verdicts,
    access,
    work_queue_and_leases,
    incidents,
    notifications,
    github,
    deletions,
    measurement_orders,
    series_points,
    short_links,
    variant_comparisons,
    chart_notes,
    series_archive,
    explanations,
)
"""The modules that define all tables; comparing them with the migrations needs all of them imported."""

MIGRATIONS = Path(__file__).parent / "migrations"


def migrate(engine: sa.Engine) -> None:
    """Migrate an empty or older database to the newest schema, in one transaction, one program at a time."""
    with engine.execution_options(perfci_begin="IMMEDIATE").begin() as connection:
        lock_for_migration(connection)
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
