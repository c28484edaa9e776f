"""A GitHub Actions job uploads to a real server with an OIDC token of a loopback issuer."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perfci.cli import run_cli
from perfci.formats import run_document
from perfci.model import Role
from perfci.net.github_job_auth import MISSING_ID_TOKEN_PERMISSION
from tests.support.builders import a_commit, a_process, a_result, a_run
from tests.support.deployed_server import a_bound_server, stored
from tests.support.loopback_issuer import SECRET, Issuer, issuing
from tests.support.signed_job_tokens import SHA, WORKFLOW

ORIGIN = (("attempt", "1"), ("job", "bench"), ("run_id", "4711"))


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


def in_a_job(monkeypatch: pytest.MonkeyPatch, issuer: Issuer | None) -> None:
    fields = {"GITHUB_ACTIONS": "true", "PERFCI_PROJECT": "acme/model", "PERFCI_CLIENT_GIVE_UP_AFTER_S": "0"}
    if issuer is not None:
        fields |= {"ACTIONS_ID_TOKEN_REQUEST_URL": issuer.ask_at, "ACTIONS_ID_TOKEN_REQUEST_TOKEN": SECRET}
    for name, value in fields.items():
        monkeypatch.setenv(name, value)


def a_file(folder: Path, name: str, *processes: Any, **about: Any) -> str:
    measured = a_run(a_result(None, *(processes or (a_process(1.0),))), session=name, origin=ORIGIN, **about)
    (folder / f"{name}.json").write_text(run_document.dump_run(measured))
    return f"{name}.json"


@pytest.mark.slow
def test_jobs_upload_without_a_secret(
    working_folder: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with a_bound_server(working_folder, issuer) as address:
        in_a_job(monkeypatch, issuer)
        of_main = run_cli(["upload", a_file(working_folder, "main"), "--server", address])
        issuer.job = {
            "event_name": "pull_request",
            "ref": "refs/pull/12/merge",
            "job_workflow_ref": f"acme/model/{WORKFLOW}@refs/pull/12/merge",
        }
        pairs = a_file(working_folder, "pairs", a_process(role=Role.HEAD, pair=0), commit=a_commit(2))
        of_pull_request = run_cli(["upload", pairs, "--server", address])
        capsys.readouterr()
        into_history = run_cli(
            ["upload", a_file(working_folder, "forged", commit=a_commit(3)), "--server", address]
        )
        issuer.job = {"repository_id": "99"}
        of_a_stranger = run_cli(["flush"])

    lines = capsys.readouterr().err.splitlines()
    assert (of_main, of_pull_request, into_history, of_a_stranger) == (0, 0, 1, 1)
    assert lines[0].startswith(
        f"  {address} answers 403: A history is written by push, schedule and workflow_dispatch"
    )
    assert lines[1].startswith(
        f"  {address} answers 403: No project of this name takes uploads from this job"
    )
    assert stored(working_folder) == {"main": "history", "pairs": "pull_request"}
    assert issuer.published == 1


@pytest.mark.slow
def test_names_the_permission_that_a_job_lacks(
    working_folder: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with a_bound_server(working_folder, issuer) as address:
        in_a_job(monkeypatch, None)

        status = run_cli(["upload", a_file(working_folder, "main"), "--server", address])

    assert (status, capsys.readouterr().err) == (1, f"  {MISSING_ID_TOKEN_PERMISSION}\n")
    assert stored(working_folder) == {}


@pytest.mark.slow
def test_rejects_an_oidc_token_for_another_server(working_folder: Path, issuer: Issuer) -> None:
    question = urllib.request.Request(
        f"{issuer.ask_at}&audience=https://perf.example.org", headers={"Authorization": f"Bearer {SECRET}"}
    )
    with urllib.request.urlopen(question, timeout=30) as answer:
        token = json.load(answer)["value"]

    with a_bound_server(working_folder, issuer) as address:
        body = json.dumps({"project": "acme/model", "token": token}).encode()
        sent = urllib.request.Request(
            f"{address}/api/v1/oidc/token", body, headers={"Content-Type": "application/json"}
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(sent, timeout=30)
        result = json.load(refused.value)

    expected = f"This token was made for another server: ask GitHub for one with the audience {address}."
    assert (refused.value.code, result["detail"]) == (401, expected)
    assert SHA not in json.dumps(result)


@pytest.mark.slow
def test_binds_a_project_in_a_job_of_its_repository(
    working_folder: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with a_bound_server(working_folder, issuer) as address:
        there = ("--db", f"sqlite:///{working_folder}/server.db", "--project", "acme/second")
        assert run_cli(["project", "create", "acme/second", *there[:2]]) == 0
        capsys.readouterr()
        assert run_cli(["token", "create", "--scope", "admin", "--name", "own", *there]) == 0
        [token] = re.findall(r"pfciu_\w+", capsys.readouterr().out)
        monkeypatch.setenv("PERFCI_TOKEN", token)
        bind = ["project", "bind", "acme/second", "--repository-id", "7", "--owner-id", "8"]
        bind += ["--server", address, "--project", "acme/second"]

        at_home = run_cli(bind)
        in_a_job(monkeypatch, issuer)
        in_another_job = run_cli(bind)
        issuer.job = {"repository": "acme/second", "repository_id": "7", "repository_owner_id": "8"}
        in_its_job = run_cli(bind)

    output = capsys.readouterr()
    assert (at_home, in_another_job, in_its_job) == (2, 2, 0)
    assert "Nothing shows that you may speak for acme/second" in output.err
    assert "The token is of a job of acme/model" in output.err
    assert "jobs of .github/workflows/perf.yml in acme/second may upload to acme/second" in output.out
