"""All routes of the API: one line for each module of them."""

from __future__ import annotations

from perfci_web.api.operation import Operation
from perfci_web.api.operations import (
    access,
    expected_changes,
    exports,
    incidents,
    notifications,
    openapi,
    reporting_schedules,
    runs,
    series,
    triage,
    trusted_publishers,
    verdicts,
)

ALL_OPERATIONS: tuple[Operation, ...] = (
    *openapi.OPERATIONS,
    *runs.OPERATIONS,
    *series.OPERATIONS,
    *verdicts.OPERATIONS,
    *access.OPERATIONS,
    *trusted_publishers.OPERATIONS,
    *incidents.OPERATIONS,
    *triage.OPERATIONS,
    *notifications.OPERATIONS,
    *exports.OPERATIONS,
    *reporting_schedules.OPERATIONS,
    *expected_changes.OPERATIONS,
)

OPERATIONS_BY_NAME = {operation.name: operation for operation in ALL_OPERATIONS}
