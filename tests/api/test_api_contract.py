"""schemathesis reads the document the API serves about itself, and tries to catch it lying: all of its
checks.

Every fourth operation is sent all that covers its schema; ``make proof`` sends it to every one.
``PERFCI_TEST_EXAMPLES`` says how many requests are thrown at an operation beside those that cover its
schema; ``make fuzz`` says many.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing

import pytest
import schemathesis
from api_client import NOW
from flask import Flask
from hypothesis import HealthCheck, assume, settings
from schemathesis.config import SchemathesisConfig
from schemathesis.schemas import BaseSchema

from perfci.auth.permissions import LOCAL, Scope
from perfci.config import Settings
from perfci.service.accounts import projects_members_tokens
from perfci.service.audit_context import AuditContext
from perfci.store import open_store
from perfci_web import create_app
from perfci_web.api.openapi_document import build_openapi_document
from perfci_web.api.operation_table import ALL_OPERATIONS
from tests.support.builders import a_process, a_result, a_run, a_series
from tests.support.stored_runs import ingest_run

EXAMPLES = int(os.environ.get("PERFCI_TEST_EXAMPLES", "1"))

SETTINGS = {
    "access": {"mode": "open"},
    "server": {"requests_per_minute": 10**9, "uploads_per_minute_mb": 10**9},
}
"""Only tokens may write, so that what needs one can be caught being done without."""

CHECKS = {"missing_required_header": {"expected-statuses": [400, 401, 403, 406, 415, 422, 428]}}
"""428 is what RFC 6585 made for an If-Match that is missing; schemathesis does not expect it by itself."""

NOT_COVERED = [operation.name for place, operation in enumerate(ALL_OPERATIONS) if place % 4]
NOT_EVERY_VALUE = {
    "include-operation-id": NOT_COVERED,
    "phases": {"coverage": {"enabled": False}},
}
"""Operations that are sent a request or two, and not every limit of every value."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Flask, str]]:
    """An application that holds a project, and the token of an admin of everything."""
    url = f"sqlite:///{tmp_path_factory.mktemp('contract')}/perfci.db"
    with closing(open_store(url, create=True)) as store:
        with store.begin() as tx:
            ingest_run(tx, a_run(a_result(a_series("suite.a"), a_process(1.0, 2.0))), "0" * 64, "body")
            made = projects_members_tokens.create_token(
                tx, AuditContext(LOCAL, NOW), None, "contract", {Scope.ADMIN}
            )
        app = create_app(
            store, read_only=False, clock=lambda: NOW, settings=Settings.model_validate(SETTINGS)
        )
        yield app, made.text
        app.extensions["perfci"].group_commit.close()


@pytest.fixture(scope="module")
def contract(served: tuple[Flask, str]) -> BaseSchema:
    """What the application says of itself, of which a part is covered."""
    return read_contract(served, NOT_EVERY_VALUE)


@pytest.fixture(scope="module")
def whole_contract(served: tuple[Flask, str]) -> BaseSchema:
    return read_contract(served)


def read_contract(served: tuple[Flask, str], *of_operations: object) -> BaseSchema:
    """What to send is worked out from the document by the one process that sends it."""
    config = SchemathesisConfig.from_dict(
        {
            "checks": CHECKS,
            "generation": {"max-examples": EXAMPLES},
            "operations": list(of_operations),
        }
    )
    config.projects.default.update(base_url="http://localhost")
    schema = schemathesis.openapi.from_dict(
        json.loads(json.dumps(build_openapi_document(ALL_OPERATIONS, enforced=True))), config=config
    )
    schema.app, _ = served
    return schema


@pytest.fixture
def bearer(served: tuple[Flask, str]) -> dict[str, str]:
    _, token = served
    return {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}


@pytest.fixture(autouse=True)
def node_where_schemathesis_looks(request: pytest.FixtureRequest) -> None:
    """It reads the name of a test from where pytest kept it before 9.1."""
    request.node._nodeid = request.node.nodeid


thrown = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=EXAMPLES < 100,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.slow
@schemathesis.pytest.from_fixture("contract").parametrize()
@thrown
def test_fulfils_its_openapi_contract(case: schemathesis.Case, bearer: dict[str, str]) -> None:
    send(case, bearer)


@pytest.mark.proof
@schemathesis.pytest.from_fixture("whole_contract").parametrize()
@thrown
def test_fulfils_its_openapi_contract_at_every_limit(case: schemathesis.Case, bearer: dict[str, str]) -> None:
    send(case, bearer)


def send(case: schemathesis.Case, bearer: dict[str, str]) -> None:
    # an undeclared parameter without a value is in no address: the request that is sent is a valid one
    assume(not any(case.query[name] in (None, []) for name in undeclared_parameters(case)))
    case.call_and_validate(headers=bearer)


def undeclared_parameters(case: schemathesis.Case) -> set[str]:
    return set(case.query or {}) - {parameter.name for parameter in case.operation.query}
