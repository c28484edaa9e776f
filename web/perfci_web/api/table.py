"""All routes of the API: one line for each module of them."""

from __future__ import annotations

from perfci_web.api import (
    ops_access,
    ops_announcements,
    ops_expectations,
    ops_formats,
    ops_incidents,
    ops_jobs,
    ops_notify,
    ops_openapi,
    ops_runs,
    ops_series,
    ops_triage,
    ops_verdicts,
)
from perfci_web.api.operations import Operation

ALL: tuple[Operation, ...] = (
    *ops_openapi.OPERATIONS,
    *ops_runs.OPERATIONS,
    *ops_series.OPERATIONS,
    *ops_verdicts.OPERATIONS,
    *ops_access.OPERATIONS,
    *ops_jobs.OPERATIONS,
    *ops_incidents.OPERATIONS,
    *ops_triage.OPERATIONS,
    *ops_notify.OPERATIONS,
    *ops_formats.OPERATIONS,
    *ops_expectations.OPERATIONS,
    *ops_announcements.OPERATIONS,
)

BY_NAME = {operation.name: operation for operation in ALL}
