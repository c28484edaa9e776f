"""Check rows of jobs, incidents and access for what the database itself does not enforce."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import IncidentState
from perfci.store.column_conversions import ABSENT
from perfci.store.jobs import github_events
from perfci.store.jobs.work_queue_and_leases import MAX_ATTEMPTS
from perfci.store.tables.access import MembershipRow, TokenRow
from perfci.store.tables.incidents import ExpectedChangeRow, ImpactRow, IncidentMemberRow, IncidentRow
from perfci.store.tables.measurements import BenchmarkRow, ProjectRow, RunRow, SeriesRow, SessionRow
from perfci.store.tables.notifications import DeliveryRow, DestinationRow
from perfci.store.tables.work_queue_and_leases import OutboxRow


def check_work_without_upload(tx: Session) -> Iterator[str]:
    """Yield the outbox items whose run or session is missing."""
    for kind, subject in (("judge", RunRow.key), ("judge_pr", SessionRow.uid)):
        there = sa.exists().where(subject == OutboxRow.subject)
        for row_id, work_subject in tx.execute(
            sa.select(OutboxRow.id, OutboxRow.subject).where(OutboxRow.kind == kind, ~there)
        ):
            yield f"Outbox item {row_id} waits to judge {work_subject[:12]}, which is not stored."


def check_abandoned_work(tx: Session) -> Iterator[str]:
    """Yield the outbox items that were given up."""
    given_up = sa.select(OutboxRow.id, OutboxRow.attempts, OutboxRow.problem)
    for row_id, attempts, problem in tx.execute(given_up.where(OutboxRow.attempts >= MAX_ATTEMPTS)):
        yield f"Outbox item {row_id} was given up after {attempts} attempts: {problem}"


def check_abandoned_github_events(tx: Session) -> Iterator[str]:
    """Yield the GitHub events that were given up."""
    for event in github_events.load_failed_github_events(tx):
        payload = event.payload
        yield (
            f"The GitHub event {payload.number} ({payload.action}) of {payload.repository} "
            f"was not processed: given up after {event.attempts} attempts: {event.problem} "
            f"Redeliver {payload.delivery} on the App's page of GitHub to try again."
        )


def check_endless_acceptances(tx: Session) -> Iterator[str]:
    """Yield the accepted incidents without an end date: only an expected change is accepted for good."""
    nothing_expected = ~sa.exists().where(ExpectedChangeRow.project_id == IncidentRow.project_id)
    accepted = IncidentRow.state == IncidentState.ACCEPTED.value
    without_end = sa.and_(IncidentRow.accepted_until.is_(None), IncidentRow.verified_at.is_(None))
    for row_id in tx.scalars(sa.select(IncidentRow.id).where(accepted, without_end, nothing_expected)):
        yield f"Incident {row_id} is accepted without an end date, and its project has no expected changes."


def check_rows_of_other_projects(tx: Session) -> Iterator[str]:
    """Yield members, impacts and deliveries that are of another project than their incident."""
    members = sa.select(IncidentMemberRow.incident_id).join(
        IncidentRow, IncidentMemberRow.incident_id == IncidentRow.id
    )
    for row_id in tx.scalars(
        _filter_other_project(members, IncidentMemberRow.series_id, IncidentRow.project_id)
    ):
        yield f"Incident {row_id} has a member of another project."
    impacts = sa.select(ImpactRow.id)
    for row_id in tx.scalars(_filter_other_project(impacts, ImpactRow.series_id, ImpactRow.project_id)):
        yield f"Impact row {row_id} refers to a series of another project."
    deliveries = (
        sa.select(DeliveryRow.id)
        .join(IncidentRow, DeliveryRow.incident_id == IncidentRow.id)
        .join(DestinationRow, DeliveryRow.destination_id == DestinationRow.id)
    )
    for row_id in tx.scalars(deliveries.where(DestinationRow.project_id != IncidentRow.project_id)):
        yield f"Delivery {row_id} notifies one project about an incident of another."


def check_access_to_missing_projects(tx: Session) -> Iterator[str]:
    """Yield tokens and roles of missing projects: ABSENT is allowed, so no foreign key guards them."""
    for row, what in ((TokenRow, "Token"), (MembershipRow, "Membership")):
        columns = row.__table__.c
        there = sa.exists().where(ProjectRow.id == columns.project_id)
        for row_id in tx.scalars(sa.select(columns.id).where(columns.project_id != ABSENT, ~there)):
            yield f"{what} {row_id} is for a project that does not exist."


def _filter_other_project(query: Any, series_id: Any, project_id: Any) -> Any:
    return (
        query.join(SeriesRow, series_id == SeriesRow.id)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .where(BenchmarkRow.project_id != project_id)
        .distinct()
    )


CHECKS: tuple[Callable[[Session], Iterator[str]], ...] = (
    check_work_without_upload,
    check_abandoned_work,
    check_abandoned_github_events,
    check_endless_acceptances,
    check_rows_of_other_projects,
    check_access_to_missing_projects,
)
