"""The webhook receiver verifies signatures and queues each delivery once."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask

from perfci.config import Secrets, Settings
from perfci.model import PerfciError
from perfci.store import Store
from perfci.store.access import audit_log, github_bindings
from perfci.store.jobs import github_events
from perfci.store.jobs.github_events import GitHubEventPayload
from perfci_web import create_app
from tests.support.builders import NOON as NOW
from tests.support.databases import database_url as database_url
from tests.support.databases import kind as kind
from tests.support.databases import store as store
from tests.support.npm_packages import EXAMPLES, content, skip_without_npm
from tests.support.signed_webhooks import (
    HERE,
    INSTALLATION,
    OLD_SECRET,
    PATH,
    RUN,
    SECRET,
    SECRETS,
    SETTINGS,
    a_bound_project,
    comment_event_payload,
    post,
    signature,
    workflow_run_event,
)

QUEUED_RUN = GitHubEventPayload("d-1", INSTALLATION, "acme/model", RUN, "completed")


@pytest.fixture
def app(store: Store) -> Iterator[Flask]:
    with ExitStack() as over:
        yield served(store, over)


def served(store: Store, over: ExitStack, settings: Settings = SETTINGS, secrets: Secrets = SECRETS) -> Flask:
    app = create_app(store, read_only=False, clock=lambda: NOW, settings=settings, secrets=secrets)
    over.callback(lambda: app.extensions["perfci"].group_commit.close())
    return app


def load_queued_runs(store: Store) -> list[tuple[str, GitHubEventPayload]]:
    with store.read() as tx:
        return [
            (event.project, event.payload) for event in github_events.load_due_github_events(tx, NOW, 100)
        ]


@pytest.fixture
def run_event() -> dict[str, Any]:
    return skip_without_npm(workflow_run_event)


def test_queues_a_workflow_run_of_a_pull_request(app: Flask, store: Store, run_event: dict[str, Any]) -> None:
    a_bound_project(store, NOW)

    answer = post(app, "workflow_run", run_event)

    assert (answer.status_code, answer.text) == (202, "The pull request will be updated.\n")
    assert load_queued_runs(store) == [("acme/model", QUEUED_RUN)]


def test_ignores_a_repeated_delivery(app: Flask, store: Store, run_event: dict[str, Any]) -> None:
    a_bound_project(store, NOW)

    answers = [post(app, "workflow_run", run_event) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [202, 200, 200]
    assert len(load_queued_runs(store)) == 1


def test_queues_a_run_for_each_project_of_the_repository(
    app: Flask, store: Store, run_event: dict[str, Any]
) -> None:
    nightly = replace(HERE, workflow=".github/workflows/nightly.yml")
    for slug, bound in {"acme/one": HERE, "acme/two": HERE, "acme/nightly": nightly}.items():
        a_bound_project(store, NOW, slug, bound)

    post(app, "workflow_run", run_event)

    assert [slug for slug, _ in load_queued_runs(store)] == ["acme/one", "acme/two"]


def test_updates_the_name_of_a_renamed_repository(
    app: Flask, store: Store, run_event: dict[str, Any]
) -> None:
    made = a_bound_project(store, NOW)
    run_event["repository"]["full_name"] = "acme/models"

    post(app, "workflow_run", run_event)

    with store.read() as tx:
        bound, (line,) = (
            github_bindings.find_repository_of_project(tx, made.id),
            audit_log.list_entries(tx, made.id),
        )
    assert bound is not None
    assert bound.slug == "acme/models"
    assert (line.actor, line.action, line.subject) == (
        "github-repository/1",
        "repository.rename",
        "acme/models",
    )


def test_accepts_a_reusable_workflow_of_another_repository(app: Flask, store: Store) -> None:
    a_bound_project(store, NOW, bound=replace(HERE, workflow="acme/ci/.github/workflows/perf.yml"))
    called = [{"path": "acme/ci/.github/workflows/perf.yml@refs/heads/main", "sha": "a" * 40}]
    result = skip_without_npm(
        lambda: workflow_run_event(path=".github/workflows/ci.yml@main", referenced_workflows=called)
    )

    assert post(app, "workflow_run", result).status_code == 202


@pytest.mark.parametrize(
    "changes",
    [
        {"path": ".github/workflows/lint.yml"},
        {"path": ".github/workflows/perf.yml.yml"},
        {"event": "push"},
        {"event": "pull_request_target"},
        {"repository": {"id": 2, "full_name": "acme/model", "owner": {"id": 10, "login": "acme"}}},
        {"repository": {"id": 1, "full_name": "acme/model", "owner": {"id": 11, "login": "acme"}}},
        {"repository": {"id": 1, "full_name": "acme/model"}},
    ],
    ids=["workflow", "longer", "push", "target", "repository", "owner", "nobody's"],
)
def test_ignores_runs_of_unbound_repositories(app: Flask, store: Store, changes: dict[str, Any]) -> None:
    a_bound_project(store, NOW)
    result = skip_without_npm(lambda: workflow_run_event(**changes))

    answer = post(app, "workflow_run", result)

    assert (answer.status_code, answer.text) == (200, "Nothing to do, or already processed.\n")
    assert load_queued_runs(store) == []


def test_queues_an_accept_comment(app: Flask, store: Store) -> None:
    a_bound_project(store, NOW)
    bodies = ["/perfci accept aaaaaaaaaa because", "LGTM", "not /perfci accept aaaaaaaaaa because"]

    status_codes = [
        post(
            app,
            "issue_comment",
            skip_without_npm(lambda body=body: comment_event_payload(body)),
            body[:3].strip("/"),
        ).status_code
        for body in bodies
    ]

    assert status_codes == [202, 200, 200]
    assert load_queued_runs(store) == [
        ("acme/model", GitHubEventPayload("pe", INSTALLATION, "acme/model", 7, "accepted"))
    ]


def test_ignores_repository_webhooks(app: Flask, store: Store, run_event: dict[str, Any]) -> None:
    a_bound_project(store, NOW)

    answer = post(
        app, "workflow_run", {name: value for name, value in run_event.items() if name != "installation"}
    )

    assert (answer.status_code, load_queued_runs(store)) == (200, [])


def test_accepts_or_ignores_every_event_of_github(app: Flask, store: Store) -> None:
    a_bound_project(store, NOW)
    kinds = skip_without_npm(lambda: json.loads(content(EXAMPLES, "api.github.com/index.json")))

    messages = {
        (kind["name"], post(app, kind["name"], sent, f"{number}").status_code)
        for kind in kinds
        for number, sent in enumerate(kind["examples"])
    }

    assert len(kinds) == 58
    assert {message for message in messages if message[1] != 200} == set()
    assert load_queued_runs(store) == []


def test_accepts_the_previous_secret_while_it_is_set(
    app: Flask, store: Store, run_event: dict[str, Any]
) -> None:
    a_bound_project(store, NOW)
    body = json.dumps(run_event).encode()

    answer = post(app, "workflow_run", body, **{"X-Hub-Signature-256": signature(body, OLD_SECRET)})

    assert answer.status_code == 202


def test_rejects_unsigned_deliveries(
    app: Flask, store: Store, run_event: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    a_bound_project(store, NOW)
    body = json.dumps(run_event).encode()
    wrong = [
        "",
        "sha256=",
        "sha256=" + "0" * 64,
        signature(body, "guessed"),
        signature(body + b" "),
        signature(body)[7:],
    ]

    answers = [post(app, "workflow_run", body, **{"X-Hub-Signature-256": case}) for case in wrong]

    assert {(answer.status_code, answer.json["detail"]) for answer in answers} == {
        (401, "The body is not signed with the secret of this server's webhook.")
    }
    assert load_queued_runs(store) == []
    assert SECRET not in caplog.text + "".join(answer.text for answer in answers)


def test_verifies_the_signature_before_parsing(app: Flask) -> None:
    answer = post(
        app, "workflow_run", b'{"action": "completed', **{"X-Hub-Signature-256": "sha256=" + "0" * 64}
    )

    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("body", "headers", "status", "detail"),
    [
        (
            b"payload=%7B%7D",
            {"Content-Type": "application/x-www-form-urlencoded"},
            415,
            "A body of type application",
        ),
        (
            gzip.compress(b"{}"),
            {"Content-Encoding": "gzip"},
            415,
            "A body is taken as GitHub sends it, without Conte",
        ),
        (b" " * (5 * 1024 * 1024 + 1), {}, 413, "A body of at most 5 MiB is taken."),
        (b"{", {}, 400, "This ping event is not as GitHub sends them (the whole: Invalid JSON"),
        (
            b"{}",
            {"X-GitHub-Event": ""},
            400,
            "The header X-GitHub-Event is missing, or is not as GitHub sends it.",
        ),
        (b"{}", {"X-GitHub-Event": "Ping\t"}, 400, "The header X-GitHub-Event is missing"),
        (
            b'{"zen": "", "hook_id": 1}',
            {"X-GitHub-Delivery": ""},
            400,
            "The header X-GitHub-Delivery is missing",
        ),
        (
            b'{"zen": "", "hook_id": 1}',
            {"X-GitHub-Delivery": "x" * 65},
            400,
            "The header X-GitHub-Delivery is missing",
        ),
    ],
    ids=["a form", "packed", "large", "broken", "no kind", "another kind", "no name", "a long name"],
)
def test_accepts_only_well_formed_deliveries(
    app: Flask, body: bytes, headers: dict[str, str], status: int, detail: str
) -> None:
    answer = post(app, "ping", body, **headers)

    assert (answer.status_code, answer.json["detail"][: len(detail)]) == (status, detail)


@pytest.mark.parametrize("number", [10**25, 2**63, -1])
def test_refuses_numbers_that_github_does_not_give(
    app: Flask, store: Store, run_event: dict[str, Any], number: int
) -> None:
    a_bound_project(store, NOW)
    run_event["workflow_run"]["id"] = number

    answer = post(app, "workflow_run", run_event)

    detail = "This workflow_run event is not as GitHub sends them (workflow_run.id: "
    assert (answer.status_code, answer.json["detail"][: len(detail)]) == (400, detail)
    assert load_queued_runs(store) == []


def test_is_absent_without_a_github_app(store: Store) -> None:
    with ExitStack() as over:
        app = served(store, over, Settings())

        answer = post(app, "ping", {"zen": "", "hook_id": 1})
        nothing = app.test_client().post("/api/v1/github/nothing", data=b"{}")

    assert (answer.status_code, answer.json["detail"]) == (404, nothing.json["detail"])


def test_accepts_post_only(app: Flask) -> None:
    assert app.test_client().get(PATH).status_code == 405


def test_does_not_start_without_the_secret(store: Store) -> None:
    with pytest.raises(PerfciError) as caught:
        create_app(store, settings=SETTINGS)

    assert str(caught.value) == (
        "[app] id names a GitHub App and PERFCI_APP_WEBHOOK_SECRET is not set: without it webhook "
        "deliveries cannot be authenticated. Set it here and on the App's page of GitHub."
    )


def test_needs_no_login(store: Store, run_event: dict[str, Any]) -> None:
    a_bound_project(store, NOW)
    text = SETTINGS.model_dump() | {"access": {"mode": "open"}}
    with ExitStack() as over:
        app = served(store, over, Settings.model_validate(text))
        foreign = {
            "Origin": "https://evil.example",
            "Sec-Fetch-Site": "cross-site",
            "Authorization": "Bearer nonsense",
        }

        answer = post(app, "workflow_run", run_event, **foreign)

    assert answer.status_code == 202


def test_reports_a_delivery_that_cannot_be_stored(
    app: Flask, store: Store, run_event: dict[str, Any]
) -> None:
    a_bound_project(store, NOW)
    app.extensions["perfci"].group_commit.close()

    answer = post(app, "workflow_run", run_event)

    assert (answer.status_code, answer.json["detail"]) == (
        503,
        "The server cannot store it now: redeliver it later.",
    )
