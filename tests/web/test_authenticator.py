"""Identification of callers: tokens, proxies, CSRF and origins; no response repeats a token."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from access_scenario import NOW, OPEN, SECRET, AccessScenario, csrf_of, fill, require_project
from flask import request

from perfci.auth.permissions import LOCAL, ProjectRole, Scope
from perfci.auth.tokens import TOKEN_IN_TEXT_PATTERN, make_token
from perfci.config import Settings
from perfci.service.accounts import projects_members_tokens
from perfci.service.audit_context import AuditContext
from perfci.store import Store, open_store
from perfci.store.access import api_tokens
from perfci_web import create_app
from perfci_web.api.operation_table import ALL_OPERATIONS
from perfci_web.server_access_mode import effective_access_settings

TOKENS = "/api/v1/projects/acme:secret/tokens"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path}/perfci.db", create=True)
    yield store
    store.close()


@pytest.fixture
def scenario(store: Store) -> Iterator[AccessScenario]:
    scenario = AccessScenario(store)
    yield scenario
    scenario.close()


def test_accepts_the_user_header_of_a_trusted_proxy_only(scenario: AccessScenario) -> None:
    requests = {"headers": scenario.callers["reader"].headers, "path": "/acme:secret/benchmarks"}
    client = scenario.app.test_client()

    through = client.get(environ_base={"REMOTE_ADDR": "127.0.0.1"}, **requests).status_code
    around = client.get(environ_base={"REMOTE_ADDR": "203.0.113.9"}, **requests).status_code
    assert (through, around) == (200, 404)


@pytest.mark.parametrize("name", ["reader, admin", "reader,admin", "rea der", 'rea"der', "x" * 201])
def test_refuses_a_user_header_that_may_hold_two_names(scenario: AccessScenario, name: str) -> None:
    answer = scenario.app.test_client().get("/", headers={"X-Forwarded-User": name})

    assert answer.status_code == 401


def test_takes_the_client_address_from_the_proxy_only(scenario: AccessScenario) -> None:
    seen: list[str | None] = []
    scenario.app.before_request_funcs.setdefault(None, []).insert(0, lambda: seen.append(flask_sender()))

    fields = {"X-Forwarded-For": "10.9.9.9, 203.0.113.9", "X-Forwarded-Proto": "https"}
    for address in ("127.0.0.1", "198.51.100.1"):
        scenario.app.test_client().get("/", headers=fields, environ_base={"REMOTE_ADDR": address})

    assert seen == ["https 203.0.113.9", "http 198.51.100.1"]


def flask_sender() -> str:
    return f"{request.scheme} {request.remote_addr}"


def change(scenario: AccessScenario, **headers: str) -> int:
    about = {"X-Forwarded-User": "admin", "X-CSRF-Token": csrf_of(scenario.app, "admin")} | headers
    answer = scenario.app.test_client().patch(
        "/api/v1/projects/acme:secret",
        json={"archived": False},
        headers={k: v for k, v in about.items() if v},
    )
    return answer.status_code


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"X-CSRF-Token": ""}, 403),
        ({"X-CSRF-Token": "guessed"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:8080"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_accepts_changes_from_pages_of_its_own_origin_only(
    scenario: AccessScenario, headers: dict[str, str], status: int
) -> None:
    assert change(scenario, **headers) == status


def test_requires_the_csrf_token_of_the_same_user(scenario: AccessScenario) -> None:
    assert change(scenario, **{"X-CSRF-Token": csrf_of(scenario.app, "reader")}) == 403


def test_ignores_cookies_and_proxy_headers_beside_a_bearer_token(scenario: AccessScenario) -> None:
    headers = scenario.callers["reading token"].headers | {"X-Forwarded-User": "admin"}

    answer = scenario.app.test_client().get(TOKENS, headers=headers)

    assert answer.status_code == 403


@pytest.fixture
def local(store: Store) -> Any:
    fill(store, SECRET)
    return create_app(store, read_only=False, loopback_only=True, clock=lambda: NOW)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://localhost:8787"}, 200),
        ({"Origin": "http://localhost:9999"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"X-Forwarded-For": "203.0.113.9"}, 403),
        ({"Forwarded": "for=203.0.113.9"}, 403),
        ({"Authorization": f"Bearer {make_token('u').text}"}, 401),
    ],
)
def test_accepts_requests_of_this_machine_only_in_local_mode(
    local: Any, headers: dict[str, str], status: int
) -> None:
    about = {"Host": "localhost:8787"} | headers

    answer = local.test_client().patch(
        "/api/v1/projects/acme:secret", json={"archived": False}, headers=about
    )

    local.extensions["perfci"].group_commit.close()
    assert answer.status_code == status


def test_shows_only_public_projects_on_a_network_without_login(store: Store) -> None:
    fill(store, SECRET)
    fill(store, OPEN)
    settings = effective_access_settings("0.0.0.0", Settings())
    client = create_app(store, settings=settings).test_client()

    status_codes = [
        client.get(path).status_code for path in ("/acme:secret/benchmarks", "/acme:open/benchmarks")
    ]

    assert status_codes == [404, 200]
    assert effective_access_settings("127.0.0.1", Settings()).access.mode == "local"


def test_records_the_last_use_of_a_token_once_a_minute(scenario: AccessScenario) -> None:
    def last_use() -> object:
        with scenario.store.read() as tx:
            tokens = api_tokens.list_tokens(tx, require_project(tx, SECRET).id)
        return next(token.last_used_at for token in tokens if token.scopes == ("results:read",))

    before = last_use()
    scenario.send("reading token", "GET", "/api/v1/projects/acme:secret").close()

    assert (before, last_use()) == (None, NOW)


def test_stores_only_the_hash_of_a_token(scenario: AccessScenario) -> None:
    made = scenario.send("admin", "POST", TOKENS, json={"name": "ci", "scopes": ["results:write"]})

    stored = b"".join(
        path.read_bytes() for path in Path(scenario.store.url.removeprefix("sqlite:///")).parent.iterdir()
    )
    assert made.json["secret"].encode() not in stored
    assert made.headers["Cache-Control"] == "no-store"


REACHING = ("anonymous", "stranger", "admin token", "reading token", "expired token")
"""Callers that get as far as callers can: to no project, to the refusal, to the answer."""


@pytest.mark.parametrize("everybody", [False, pytest.param(True, marks=pytest.mark.proof)])
def test_never_returns_or_logs_a_token(
    scenario: AccessScenario, caplog: pytest.LogCaptureFixture, everybody: bool
) -> None:
    paths = [
        "/",
        "/acme:secret/",
        "/nothing",
        *(operation.url_path.replace("<project:project>", "acme:secret") for operation in ALL_OPERATIONS),
    ]
    methods = {
        operation.url_path.replace("<project:project>", "acme:secret"): operation.method
        for operation in ALL_OPERATIONS
    }

    with caplog.at_level(logging.DEBUG):
        responses = [
            answer.text + str(answer.headers)
            for who in scenario.callers
            for path in (paths if everybody or who in REACHING else paths[:SOME_PATHS])
            for answer in [
                scenario.send(who, methods.get(path, "GET"), path, json={"name": create_token(scenario)})
            ]
        ]

    assert [text for text in (*responses, caplog.text) if TOKEN_IN_TEXT_PATTERN.search(text)] == []


SOME_PATHS = 6


def create_token(scenario: AccessScenario) -> str:
    return scenario.callers["admin token"].headers["Authorization"].removeprefix("Bearer ")


def test_lets_only_server_admins_set_expressions_of_the_shared_worker(store: Store) -> None:
    scenario = AccessScenario(store, admins=["proxy/admin"])
    bars, expressions = {"judge": {"bar": 0.1}}, {"policy": [{"match": "(a+)+$", "class": "memory"}]}
    path = "/api/v1/projects/acme:secret"

    mine = scenario.send("admin token", "PATCH", path, json={"settings": bars})
    refused = scenario.send("admin token", "PATCH", path, json={"settings": expressions})
    taken = scenario.send("admin", "PATCH", path, json={"settings": expressions})
    broken = scenario.send("admin", "PATCH", path, json={"settings": {"policy": [{"match": "("}]}})

    scenario.close()
    assert (mine.status_code, mine.json["settings"]) == (200, bars)
    assert (refused.status_code, taken.status_code, taken.json["settings"]) == (409, 200, expressions)
    assert broken.json["detail"].startswith(
        "The tables of the project: policy.0.match: a regular expression was expected"
    )


def test_pages_through_the_audit_log(scenario: AccessScenario) -> None:
    for name in ("one", "two", "three"):
        scenario.send("admin", "POST", TOKENS, json={"name": name, "scopes": ["results:read"]})

    first = scenario.send("admin", "GET", "/api/v1/projects/acme:secret/audit?limit=2").json
    second = scenario.send(
        "admin", "GET", f"/api/v1/projects/acme:secret/audit?limit=1&cursor={first['next']}"
    ).json

    assert [item["detail"]["name"] for item in (*first["items"], *second["items"])] == ["three", "two", "one"]


def test_revokes_tokens_that_were_created_with_a_revoked_token(scenario: AccessScenario) -> None:
    made = scenario.send("admin token", "POST", TOKENS, json={"name": "hidden", "scopes": ["admin"]}).json
    with scenario.store.begin() as tx:
        project = require_project(tx, SECRET)
        maker = next(
            token
            for token in api_tokens.list_tokens(tx, project.id)
            if f"token:{token.uid}" == made["token"]["created_by"]
        )
        projects_members_tokens.revoke_token(tx, AuditContext(LOCAL, NOW), project.id, maker.uid)

    answer = scenario.app.test_client().get(TOKENS, headers={"Authorization": f"Bearer {made['secret']}"})

    assert answer.status_code == 401


def test_revokes_the_tokens_of_a_removed_member(scenario: AccessScenario) -> None:
    made = scenario.send("admin", "POST", TOKENS, json={"name": "mine", "scopes": ["results:write"]}).json
    bearer = {"Authorization": f"Bearer {made['secret']}"}

    with scenario.store.begin() as tx:
        projects_members_tokens.set_member_role(
            tx, AuditContext(LOCAL, NOW), require_project(tx, SECRET).id, "proxy/admin", ProjectRole.SHERIFF
        )

    assert scenario.app.test_client().get("/api/v1/projects", headers=bearer).status_code == 401


def test_grants_no_token_more_than_its_creator_has(scenario: AccessScenario) -> None:
    with scenario.store.begin() as tx:
        made = projects_members_tokens.create_token(tx, AuditContext(LOCAL, NOW), None, "all", {Scope.ADMIN})
    everywhere = {"Authorization": f"Bearer {made.text}"}

    lived = scenario.send("admin", "POST", TOKENS, json={"name": "long", "scopes": ["admin"], "days": 366})
    assert (
        scenario.app.test_client()
        .post("/api/v1/projects", json={"project": "a/b"}, headers=everywhere)
        .status_code
        == 201
    )
    assert (
        scenario.send("admin token", "POST", "/api/v1/projects", json={"project": "a/c"}).status_code == 403
    )
    assert lived.status_code == 400


def test_refuses_an_expired_token(scenario: AccessScenario, store: Store) -> None:
    made = scenario.send(
        "admin", "POST", TOKENS, json={"name": "short", "scopes": ["results:read"], "days": 1}
    ).json
    later = create_app(store, clock=lambda: NOW + timedelta(days=1)).test_client()

    answer = later.get("/api/v1/projects", headers={"Authorization": f"Bearer {made['secret']}"})

    assert answer.status_code == 401
    assert json.loads(answer.text)["detail"] == "The token is not valid: it is unknown, expired or revoked."
