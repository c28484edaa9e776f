"""All routes of the API: one line for each module of them."""

from __future__ import annotations

from perfci_web.api import ops_access, ops_runs
from perfci_web.api.operations import Operation

ALL: tuple[Operation, ...] = (*ops_runs.OPERATIONS, *ops_access.OPERATIONS)

BY_NAME = {operation.name: operation for operation in ALL}
