"""All operations of the API, one line for each module of them."""

from __future__ import annotations

from perfci_web.api.operation import Operation
from perfci_web.api.operations import (
    chart_notes,
    commit_impacts,
    commits_machines_environments,
    comparisons,
    deletions,
    exports,
    github_trusted_publishing,
    invalid_marks,
    measurement_orders,
    monitoring,
    notifications,
    openapi,
    project_access_and_audit,
    projects,
    pull_requests,
    runs,
    series,
    suite_reporting_schedules,
    unresolved_results,
    verdicts,
)
from perfci_web.api.operations.triage import (
    archived_series,
    expected_changes,
    incident_changes,
    incidents,
    muted_benchmarks,
)

ALL_OPERATIONS: tuple[Operation, ...] = (
    *openapi.OPERATIONS,
    *projects.OPERATIONS,
    *runs.OPERATIONS,
    *series.OPERATIONS,
    *commits_machines_environments.OPERATIONS,
    *verdicts.OPERATIONS,
    *comparisons.OPERATIONS,
    *pull_requests.OPERATIONS,
    *project_access_and_audit.OPERATIONS,
    *github_trusted_publishing.OPERATIONS,
    *incidents.OPERATIONS,
    *incident_changes.OPERATIONS,
    *commit_impacts.OPERATIONS,
    *muted_benchmarks.OPERATIONS,
    *archived_series.OPERATIONS,
    *notifications.OPERATIONS,
    *exports.OPERATIONS,
    *unresolved_results.OPERATIONS,
    *suite_reporting_schedules.OPERATIONS,
    *expected_changes.OPERATIONS,
    *deletions.OPERATIONS,
    *invalid_marks.OPERATIONS,
    *chart_notes.OPERATIONS,
    *measurement_orders.OPERATIONS,
    *monitoring.OPERATIONS,
)
