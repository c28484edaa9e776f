"""The API tells what it is."""

from __future__ import annotations

import json

from perfci.auth.permissions import Need
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation, Stream


def get_openapi(call: Call) -> Reply:
    from perfci_web.api.openapi_document import document  # describes the table that this operation is in
    from perfci_web.api.operation_table import ALL

    told = document(ALL, enforced=call.settings.access.mode != "local")
    return Reply(json.dumps(told, ensure_ascii=False).encode())


OPERATIONS = (
    Operation(
        "get_openapi", "GET", "/openapi.json", Need.PUBLIC, get_openapi, "This document",
        answers={200: Stream("application/json")},
    ),
)  # fmt: skip
