"""The API tells what it is."""

from __future__ import annotations

import json

from perfci.auth.permissions import AccessRequirement
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation, StreamedAnswer


def get_openapi(call: Call) -> Reply:
    from perfci_web.api.openapi_document import (
        build_document,
    )  # describes the table that this operation is in
    from perfci_web.api.operation_table import ALL_OPERATIONS

    told = build_document(ALL_OPERATIONS, enforced=call.settings.access.mode != "local")
    return Reply(json.dumps(told, ensure_ascii=False).encode())


OPERATIONS = (
    Operation(
        "get_openapi",
        "GET",
        "/openapi.json",
        AccessRequirement.PUBLIC,
        get_openapi,
        "This document",
        answers={200: StreamedAnswer("application/json")},
    ),
)
