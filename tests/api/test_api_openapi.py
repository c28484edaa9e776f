"""The document the API serves about itself. ``tests/api/test_api_contract.py`` throws schemathesis at what
it says.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from api_client import Api
from openapi_spec_validator import validate

from perfci_web.api.openapi_document import build_openapi_document, format_openapi_path
from perfci_web.api.operation_table import ALL_OPERATIONS


@pytest.fixture
def served(api: Api) -> Any:
    return api.get("/openapi.json").json


def test_is_valid_openapi(served: Any) -> None:
    validate(served)


def test_describes_every_operation_once(served: Any) -> None:
    fields = {
        (path, method): entry["operationId"]
        for path, item in served["paths"].items()
        for method, entry in item.items()
    }

    assert fields == {
        (format_openapi_path(operation), operation.method.lower()): operation.name
        for operation in ALL_OPERATIONS
    }


def test_declares_security_only_where_it_is_enforced(served: Any) -> None:
    enforced = build_openapi_document(ALL_OPERATIONS, enforced=True)["paths"]["/api/v1/runs"]["post"]

    assert "securitySchemes" not in served["components"]
    assert enforced["security"] == [{"token": []}]


def test_describes_the_rules_of_an_upload(served: Any) -> None:
    parts = served["components"]["schemas"]

    assert parts["ResultPart"]["properties"]["benchmark"]["maxLength"] == 500
    assert parts["ResultPart"]["properties"]["parameters"]["maxProperties"] == 64
    assert served["paths"]["/api/v1/runs"]["post"]["parameters"][0]["schema"]["pattern"] == "^[0-9a-f]{64}$"


def test_names_and_titles_of_schemas_are_names_of_classes(served: Any) -> None:
    names = served["components"]["schemas"]

    assert [name for name in names if not re.fullmatch(r"[A-Z][A-Za-z0-9]+", name)] == []
    assert {name: schema["title"] for name, schema in names.items()} == {name: name for name in names}
