"""List incidents for pages: by filters, by section of a page, and how many there are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import IncidentState
from perfci.store.incidents.incident_records import IncidentRecord
from perfci.store.incidents.incident_store import (
    INCIDENTS,
    NEEDS_ATTENTION,
    OPEN,
    UNRESOLVED,
    load_incidents,
)
from perfci.store.queries.series_commits_machines import sha_prefix_condition

_HELD = INCIDENTS.c.disposition.in_(["held_back", "weak"])
_WAITING = INCIDENTS.c.disposition == "waiting"
_SNOOZED = INCIDENTS.c.state == IncidentState.SNOOZED.value
_LISTED = sa.or_(_SNOOZED, sa.and_(UNRESOLVED, sa.or_(NEEDS_ATTENTION, _HELD, _WAITING)))
SECTIONS: Mapping[str, sa.ColumnElement[bool]] = {
    "open": OPEN,
    "held": sa.and_(UNRESOLVED, sa.not_(NEEDS_ATTENTION), _HELD),
    "waiting": sa.and_(UNRESOLVED, sa.not_(NEEDS_ATTENTION), _WAITING),
    "snoozed": _SNOOZED,
    "rest": sa.not_(_LISTED),
}
"""Sections of the incidents page; every incident is in exactly one."""


_DETAIL = sa.type_coerce(INCIDENTS.c.detail, sa.Text)
CONFIRMED = sa.and_(
    _DETAIL.contains('"confirmed_series":'), sa.not_(_DETAIL.contains('"confirmed_series":0'))
)
"""The incidents that an A/B rerun confirmed in at least one series, as their last evaluation says."""


def list_incidents(
    tx: Session,
    project_id: int,
    *,
    states: Collection[IncidentState] = (),
    kinds: Collection[str] = (),
    assignee: str | None = None,
    commit: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[IncidentRecord]:
    """List a page of incidents, newest number first, below the number ``before``."""
    chosen: list[sa.ColumnElement[bool]] = []
    chosen += [INCIDENTS.c.kind.in_(list(kinds))] if kinds else []
    chosen += [INCIDENTS.c.assignee == assignee] if assignee is not None else []
    chosen += [sha_prefix_condition(INCIDENTS.c.commit, commit)] if commit is not None else []
    chosen += [INCIDENTS.c.number < before] if before is not None else []
    return load_incidents(tx, project_id, *chosen, states=states, limit=limit)


def list_incidents_of_section(
    tx: Session, project_id: int, section: str, *, limit: int | None = None, confirmed_only: bool = False
) -> list[IncidentRecord]:
    """List the incidents of one section of a page, newest number first."""
    return load_incidents(tx, project_id, SECTIONS[section], *_keep(confirmed_only), limit=limit)


def count_and_load_open_incidents(
    tx: Session, project_id: int, *, limit: int
) -> tuple[int, list[IncidentRecord]]:
    """Count the open incidents and load the newest."""
    records = load_incidents(tx, project_id, OPEN, limit=limit)
    return len(records) if len(records) < limit else count_open_incidents(tx, project_id), records


def list_fixed_incidents(
    tx: Session, project_id: int, since: datetime | None, *, limit: int, confirmed_only: bool = False
) -> list[IncidentRecord]:
    """List the incidents that were fixed or reverted since a moment, newest number first."""
    changed = [INCIDENTS.c.changed_at >= since] if since is not None else []
    changed += _keep(confirmed_only)
    states = (IncidentState.FIXED, IncidentState.REVERTED)
    return load_incidents(tx, project_id, *changed, states=states, with_detail=False, limit=limit)


def list_incidents_changed_since(
    tx: Session, project_id: int, since: datetime, *, limit: int
) -> list[IncidentRecord]:
    """List the incidents that appeared or changed state after a moment, newest number first."""
    changed = sa.or_(INCIDENTS.c.first_seen > since, INCIDENTS.c.changed_at > since)
    return load_incidents(tx, project_id, changed, with_detail=False, limit=limit)


def count_open_incidents(tx: Session, project_id: int, *, confirmed_only: bool = False) -> int:
    """Count the open incidents."""
    counted = sa.select(sa.func.count()).select_from(INCIDENTS)
    chosen = (INCIDENTS.c.project_id == project_id, OPEN, *_keep(confirmed_only))
    return tx.scalar(counted.where(*chosen)) or 0


def count_incidents_by_section(
    tx: Session, project_id: int, *, confirmed_only: bool = False
) -> dict[str, int]:
    """Count the incidents of each section."""
    counted = [sa.func.count(sa.case((condition, 1))).label(name) for name, condition in SECTIONS.items()]
    chosen = (INCIDENTS.c.project_id == project_id, *_keep(confirmed_only))
    row = tx.execute(sa.select(*counted).where(*chosen)).one()
    return dict(zip(SECTIONS, row, strict=True))


def _keep(confirmed_only: bool) -> list[sa.ColumnElement[bool]]:
    return [CONFIRMED] if confirmed_only else []
