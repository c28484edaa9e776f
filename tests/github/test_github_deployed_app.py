"""A deployed GitHub App: `perfci serve`, its `judge-worker` process, and a fake GitHub at an address."""

from __future__ import annotations

import json
import urllib.request
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from perfci.cli import run_cli
from perfci.store import open_store
from perfci.store.queries import runs_and_sessions
from perfci.store.tables.github import RunEventRow
from tests.support.deployed_server import serving
from tests.support.github_app_server import artifact
from tests.support.github_openapi import described
from tests.support.loopback_github import on_loopback
from tests.support.npm_packages import skip_without_npm
from tests.support.signed_webhooks import PATH, SECRET, comment_event_payload, signature, workflow_run_event
from tests.support.stateful_github import BASE, HEAD, FakeGitHub, comment, pull
from tests.support.waiting import until

SECRETS = {"PERFCI_APP_ID": "Iv1.7", "PERFCI_APP_KEY_FILE": "app.pem", "PERFCI_APP_WEBHOOK_SECRET": SECRET}


def deliver(url: str, body: bytes, kind: str = "workflow_run", delivery: str = "d-1") -> int:
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": kind,
        "X-GitHub-Delivery": delivery,
        "X-Hub-Signature-256": signature(body),
    }
    request = urllib.request.Request(f"{url.rstrip('/')}{PATH}", body, headers, method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return int(answer.status)


def ended(number: int) -> dict[str, object]:
    """A run of which no delivery ever told; it ended an hour ago."""
    at = f"{datetime.now(UTC) - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    return {"id": number, "created_at": at, "run_started_at": at, "updated_at": at}


def followed(database: str) -> list[int]:
    with closing(open_store(database, create=False)) as store, store.read() as tx:
        events = tx.execute(sa.select(RunEventRow.number, RunEventRow.state))
        return sorted(number for number, state in events if state == "done")


@pytest.mark.slow
def test_deployed_processes_report_runs_and_carry_out_orders(
    working_folder: Path, app_keys: tuple[str, str]
) -> None:
    hub = FakeGitHub(skip_without_npm(lambda: described("api.github.com")), pulls=[pull()])
    (working_folder / "app.pem").write_text(app_keys[0])
    hub.public_key, hub.artifact, hub.runs = app_keys[1], artifact(working_folder), [ended(18)]
    database = f"sqlite:///{working_folder}/server.db"
    numbers = ["--repository-id", "1", "--owner-id", "10", "--workflow", ".github/workflows/perf.yml"]
    assert run_cli(["project", "create", "acme/model", "--db", database]) == 0
    assert (
        run_cli(["project", "bind", "acme/model", *numbers, "--db", database, "--project", "acme/model"]) == 0
    )

    with (
        on_loopback(hub) as api,
        serving(working_folder, **SECRETS, PERFCI_APP_API=api, PERFCI_DB=database) as (_, url),
    ):
        status = deliver(url, json.dumps(workflow_run_event()).encode())
        assert until(lambda: hub.comments and followed(database) == [17, 18])
        hub.comments.append(comment(501, "/perfci run ^train", "bob"))
        asked = comment_event_payload("/perfci run ^train")
        asked["comment"]["id"] = 501
        deliver(url, json.dumps(asked).encode(), "issue_comment", "c-1")
        assert until(lambda: hub.dispatched and "waiting for a runner" in hub.comments[0]["body"])

    assert (hub.dispatched[0]["inputs"]["bench"], hub.reactions) == ("^train", [(501, "eyes")])
    assert (status, len(hub.checks), hub.wrong) == (202, 1, [])
    with closing(open_store(database, create=False)) as store, store.read() as tx:
        assert [session.uid for session in runs_and_sessions.load_sessions(tx, "acme/model")] == ["pairs"]
    assert f"{BASE[:10]}` (merge base) → head `{HEAD[:10]}" in hub.comments[0]["body"]


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        (
            {"PERFCI_APP_WEBHOOK_SECRET": SECRET},
            "[app] id names a GitHub App and there is no private key of it: set "
            "PERFCI_APP_PRIVATE_KEY, or key_file in "
            "[app], for the process that judges.",
        ),
        (
            {"PERFCI_APP_WEBHOOK_SECRET": SECRET, "PERFCI_APP_KEY_FILE": "none.pem"},
            "none.pem of the GitHub App cannot be read: ",
        ),
        (
            {"PERFCI_APP_WEBHOOK_SECRET": SECRET, "PERFCI_APP_PRIVATE_KEY": "-----BEGIN s3cret-----"},
            "The private key of the GitHub App is none; expected the PEM file that GitHub gives out",
        ),
        (
            {"PERFCI_APP_PRIVATE_KEY": "app"},
            "[app] id names a GitHub App and PERFCI_APP_WEBHOOK_SECRET is not set",
        ),
    ],
    ids=["no key", "no file", "no PEM", "no secret"],
)
def test_reports_missing_settings_before_serving(
    working_folder: Path,
    app_keys: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variables: dict[str, str],
    sentence: str,
) -> None:
    monkeypatch.setenv("PERFCI_APP_ID", "Iv1.7")
    for name, value in variables.items():
        monkeypatch.setenv(name, app_keys[0] if value == "app" else value)

    code = run_cli(["serve", "--port", "0"])

    result = capsys.readouterr().err
    assert (code, sentence in result, "s3cret" in result) == (2, True, False)


def test_once_processes_pending_runs_and_exits(
    working_folder: Path,
    app_keys: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PERFCI_APP_ID", "Iv1.7")
    monkeypatch.setenv("PERFCI_APP_PRIVATE_KEY", app_keys[0])

    code = run_cli(["judge-worker", "--once"])

    assert (code, capsys.readouterr().out) == (
        0,
        "0 uploads judged, 0 messages sent, 0 GitHub runs processed\n",
    )
