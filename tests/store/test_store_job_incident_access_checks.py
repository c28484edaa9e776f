"""The check of a database reports impossible rows of jobs, incidents and access."""

from __future__ import annotations

import pytest
from sqlalchemy.orm import Session

from perfci.store import Store, check_integrity, projects
from perfci.store.tables.access import TokenRow
from perfci.store.tables.base import TableBase
from perfci.store.tables.github import RunEventRow
from perfci.store.tables.incidents import ExpectedChangeRow, ImpactRow, IncidentMemberRow, IncidentRow
from perfci.store.tables.notifications import DeliveryRow, DestinationRow
from perfci.store.tables.work_queue_and_leases import OutboxRow
from perfci.store.writes.find_or_add_rows import ensure_project_id, ensure_series_id
from tests.support.builders import NOON, PROJECT, a_run, a_series
from tests.support.stored_runs import ingest_run

MOVED = {"commit": "b", "relative_change": 0.1, "before": 1.0, "after": 1.1}


def an_incident(project: int, state: str = "new") -> IncidentRow:
    fields = {"derived_id": "", "kind": "data", "state": state, "last_good": "", "commit": "", "headline": ""}
    return IncidentRow(
        id=1, project_id=project, number=1, first_seen=NOON, changed_at=NOON, series_count=1, **fields
    )


def a_destination(project: int) -> DestinationRow:
    return DestinationRow(
        id=1, project_id=project, name="team", kind="slack", address="https://x", routes={}, quiet={}
    )


def a_delivery() -> DeliveryRow:
    sent = {"uid": "u", "state": "waiting", "state_number": 1, "not_before": NOON, "body": {}}
    return DeliveryRow(destination_id=1, incident_id=1, **sent)


def a_token(project: int) -> TokenRow:
    made = {"uid": "u", "name": "n", "secret_hash": "h", "last4": "abcd", "scopes": [], "created_by": "local"}
    return TokenRow(project_id=project, created_at=NOON, expires_at=NOON, **made)


def an_outbox_row(project: int, kind: str, subject: str, attempts: int = 0) -> OutboxRow:
    problem = "no such file" if attempts else ""
    return OutboxRow(
        project_id=project, kind=kind, subject=subject, created_at=NOON, attempts=attempts, problem=problem
    )


def a_run_event(project: int) -> RunEventRow:
    fields = {
        "delivery": "72d3162e",
        "installation": 44,
        "repository": "acme/model",
        "number": 17,
        "action": "completed",
    }
    tried = {"state": "failed", "attempts": 1, "problem": "GitHub refused to read it."}
    return RunEventRow(project_id=project, received_at=NOON, not_before=NOON, **fields, **tried)


def an_expected_change(project: int) -> ExpectedChangeRow:
    fields = {
        "sha": "b",
        "match": "peak",
        "change": 0.03,
        "reason": "a cache",
        "source": "#12",
        "recorded_by": "git",
    }
    return ExpectedChangeRow(project_id=project, recorded_at=NOON, **fields)


def rows_of(case: str, project_id: int, other_id: int, series_id: int) -> list[TableBase]:
    member = IncidentMemberRow(incident_id=1, series_id=series_id, last_good="a", added_by="perfci", **MOVED)
    ledger = ImpactRow(id=7, project_id=other_id, series_id=series_id, recorded_at=NOON, **MOVED)
    cases: dict[str, list[TableBase]] = {
        "nothing": [
            an_incident(project_id),
            member,
            a_destination(project_id),
            a_delivery(),
            an_outbox_row(project_id, "judge", "key"),
        ],
        "no such run": [an_outbox_row(project_id, "judge", "another key")],
        "no such session": [an_outbox_row(project_id, "judge_pr", "another session")],
        "given up": [an_outbox_row(project_id, "judge", "key", attempts=8)],
        "given up event": [a_run_event(project_id)],
        "expected": [an_incident(project_id, "accepted"), an_expected_change(project_id)],
        "never expected": [an_incident(project_id, "accepted"), an_expected_change(other_id)],
        "foreign member": [an_incident(other_id), member],
        "foreign ledger": [ledger],
        "foreign message": [an_incident(project_id), a_destination(other_id), a_delivery()],
        "no such project": [a_token(99)],
    }
    return cases[case]


@pytest.mark.parametrize(
    ("case", "finds"),
    [
        ("nothing", []),
        ("no such run", ["Outbox item 1 waits to judge another key, which is not stored."]),
        ("no such session", ["Outbox item 1 waits to judge another sess, which is not stored."]),
        ("given up", ["Outbox item 1 was given up after 8 attempts: no such file"]),
        (
            "given up event",
            [
                "The GitHub event 17 (completed) of acme/model was not processed: given up after "
                "1 attempts: GitHub refused to read it. "
                "Redeliver 72d3162e on the App's page of GitHub to try again."
            ],
        ),
        ("expected", []),
        (
            "never expected",
            ["Incident 1 is accepted without an end date, and its project has no expected changes."],
        ),
        ("foreign member", ["Incident 1 has a member of another project."]),
        ("foreign ledger", ["Impact row 7 refers to a series of another project."]),
        ("foreign message", ["Delivery 1 notifies one project about an incident of another."]),
        ("no such project", ["Token 1 is for a project that does not exist."]),
    ],
)
def test_reports_impossible_rows(store: Store, case: str, finds: list[str]) -> None:
    with store.begin() as tx:
        project_id, other_id, series_id = two_projects(tx)
        for row in rows_of(case, project_id, other_id, series_id):
            tx.add(row)
            tx.flush()

    assert check_integrity(store.url) == finds


def two_projects(tx: Session) -> tuple[int, int, int]:
    ingest_run(tx, a_run(), "key", "body")
    project_id = ensure_project_id(tx, PROJECT)
    other_id = projects.create_project(tx, "acme/other", "private", NOON).id
    return project_id, other_id, ensure_series_id(tx, project_id, a_series())
