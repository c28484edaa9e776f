"""All operations of the API, one line for each module of them."""

from __future__ import annotations

from perfci_web.api.operation import Operation
from perfci_web.api.operations import (
    access,
    expected_changes,
    exports,
    impact,
    incidents,
    muted_benchmarks,
    notifications,
    openapi,
    projects,
    reporting_schedules,
    runs,
    series,
    triage,
    trusted_publishers,
    unresolved_results,
    verdicts,
)

ALL_OPERATIONS: tuple[Operation, ...] = (
    *openapi.OPERATIONS,
    *projects.OPERATIONS,
    *runs.OPERATIONS,
    *series.OPERATIONS,
    *verdicts.OPERATIONS,
    *access.OPERATIONS,
    *trusted_publishers.OPERATIONS,
    *incidents.OPERATIONS,
    *triage.OPERATIONS,
    *impact.OPERATIONS,
    *muted_benchmarks.OPERATIONS,
    *notifications.OPERATIONS,
    *exports.OPERATIONS,
    *unresolved_results.OPERATIONS,
    *reporting_schedules.OPERATIONS,
    *expected_changes.OPERATIONS,
)
