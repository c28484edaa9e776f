"""Exports of a whole project in the formats of other tools."""

from __future__ import annotations

from perfci.auth.permissions import AccessRequirement
from perfci.service.export_history import export_history
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply, StreamedAnswer

EXPORTS = {
    "export_csv": ("csv", "export.csv", "text/csv; charset=utf-8"),
    "export_runs": ("perfci", "export.json", "application/jsonl"),
    "export_pytorch": ("pytorch", "export.pytorch.json", "application/json"),
    "export_asv": ("asv", "export.asv.tar", "application/x-tar"),
}
"""Format, end of the address and content type by operation id."""


def stream_project_export(call: Call, operation: str) -> Reply:
    """Stream all histories; messages about what the format cannot hold are dropped, docs/formats.md lists
    it.
    """
    format, _, content_type = EXPORTS[operation]
    chunks = export_history(call.store, call.required_project.slug, format, lambda _: None)
    return Reply(chunks, content_type=content_type, headers={"Content-Disposition": "attachment"})


def _export_operation(operation: str) -> Operation:
    format, address, content_type = EXPORTS[operation]
    return Operation(
        operation,
        "GET",
        f"{PROJECT_RULE}/{address}",
        AccessRequirement.READ,
        lambda call: stream_project_export(call, operation),
        f"All histories as {format}",
        answers={200: StreamedAnswer(content_type)},
        etag=True,
        is_export=True,
    )


OPERATIONS = tuple(map(_export_operation, EXPORTS))
