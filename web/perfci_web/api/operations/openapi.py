"""The OpenAPI document of this API."""

from __future__ import annotations

import json

from perfci.auth.permissions import AccessRequirement
from perfci_web.api.openapi_document import build_openapi_document
from perfci_web.api.operation import Call, Operation, Reply, StreamedAnswer


def get_openapi_document(call: Call) -> Reply:
    document = build_openapi_document(call.operations, enforced=call.settings.access.mode != "local")
    return Reply(json.dumps(document, ensure_ascii=False).encode())


OPERATIONS = (
    Operation(
        "get_openapi",
        "GET",
        "/openapi.json",
        AccessRequirement.PUBLIC,
        get_openapi_document,
        "This document",
        answers={200: StreamedAnswer("application/json")},
        serves_unknown=True,
    ),
)
