"""Artifacts of pull-request jobs are untrusted: which parts are shown, stored or refused."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import httpx
import pytest
from test_github_commands import Job
from test_github_commands import branched as branched
from test_github_commands import job as job

from perfci.cli import run_cli as run_verb
from perfci.formats import run_document
from perfci.model import Commit, Role, Run
from tests.support.builders import NOON, a_process, a_result
from tests.support.databases import database_url as database_url
from tests.support.databases import kind as kind
from tests.support.databases import store as store
from tests.support.github_app_server import COMPARED, PAGE, Server, artifact, side, zipped
from tests.support.github_app_server import description as description
from tests.support.github_app_server import server as server
from tests.support.stateful_github import BASE, HEAD, NEWER, pull


def test_stores_all_runs_of_a_real_artifact(server: Server, job: Job) -> None:
    job.set_event("pull_request", job.pull_request_event())
    assert run_verb(["github", "compare"]) == 0
    handed = {
        str(path.relative_to("perfci-results")): path for path in Path("perfci-results").rglob("*.json")
    }
    server.hub.artifact = zipped({name: path.read_bytes() for name, path in handed.items()})
    server.hub.pulls, server.hub.run = [pull(head=job.head)], {"head_sha": job.head}

    server.receive_run_event(proposal=server.hub.pulls[0])
    server.process_due_events()

    (report_comment,) = server.hub.comments
    assert "### perfci: 1 regression" in report_comment["body"]
    assert (len(server.runs()), set(server.kinds().values())) == (len(handed) - 1, {"pull_request"})


def test_reads_the_artifact_of_the_newest_attempt(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[int] = []
    attempts = [
        {"id": 4, "name": "perfci-results", "size_in_bytes": 9, "expired": False},
        {"id": 5, "name": "perfci-results", "size_in_bytes": 9, "expired": False},
        {"id": 6, "name": "perfci-results", "size_in_bytes": 9, "expired": True},
        {"id": 7, "name": "perfci-results-other", "size_in_bytes": 9, "expired": False},
    ]
    answer = server.hub.handle_request

    def listed(request: Any) -> Any:
        if request.url.path.endswith("/artifacts"):
            return answer_with({"total_count": 4, "artifacts": attempts})
        if request.url.path.endswith("/zip"):
            requests.append(int(request.url.path.split("/")[-2]))
        return answer(request)

    monkeypatch.setattr(server.hub, "handle_request", listed)
    server.receive_run_event()
    server.process_due_events()

    assert requests == [5]


def answer_with(payload: dict[str, Any]) -> Any:
    return httpx.Response(200, json=payload)


@pytest.mark.parametrize(
    ("left", "says"),
    [
        (b"<html>", "it is no zip, or was cut off"),
        (zipped({"findings.json": b"0" * 20 * 2**20}), "it unpacks to more than any comparison takes"),
        (zipped({"../findings.json": b"{}"}), "a name in it leads out of its folder"),
        (zipped({"findings.json": b"{}"}), "findings.json is not what"),
        (zipped({"findings.json": b"[" * 100_000}), "findings.json is not what"),
        (zipped({"findings.json": b"[" + b"[]," * 300_000 + b"0]"}), "findings.json is not what"),
    ],
    ids=["no zip", "a bomb", "upwards", "empty", "deep", "many"],
)
def test_reports_an_unreadable_artifact(server: Server, left: bytes, says: str) -> None:
    server.hub.artifact = left

    server.receive_run_event()
    server.process_due_events()

    (report_comment,), (check,) = server.hub.comments, server.hub.checks
    assert "### perfci: not run, measurement failed" in report_comment["body"]
    assert says in report_comment["body"]
    assert (check["conclusion"], server.events(), server.runs()) == ("neutral", [("done", 0, "")], [])


def test_rejects_results_of_another_commit(server: Server, tmp_path: Path) -> None:
    server.hub.artifact = artifact(tmp_path, head=NEWER)

    server.receive_run_event()
    server.process_due_events()

    (report_comment,) = server.hub.comments
    assert (
        "findings.json is about cccccccccccc, and aaaaaaaaaaaa was to be measured." in report_comment["body"]
    )
    assert server.runs() == []


def test_does_not_trust_claims_in_documents(server: Server, tmp_path: Path) -> None:
    lies = {
        "run_id": "99",
        "attempt": "77",
        "event": "push",
        "pull_request": "99",
        "compared_pull_request": "99",
        "job": "compare",
        "step": "0",
    }
    liar = Commit(BASE, "Poisoned", "Eve", NOON, ("d" * 40,), "main", ("v1",), position=0)
    runs = (
        side(Role.BASE, BASE, project="rival/own", origin=tuple(sorted(lies.items())), commit=liar),
        side(Role.HEAD, HEAD, project="rival/own", origin=tuple(sorted(lies.items()))),
    )
    server.hub.run = {"run_attempt": 2, "head_commit": {"id": HEAD, "message": "Cache more\n\nMuch more."}}
    server.hub.artifact = artifact(tmp_path, runs, project="rival/own")

    server.receive_run_event()
    server.process_due_events()

    base, head = server.runs()
    github = {
        "run_id": "17",
        "attempt": "2",
        "event": "pull_request",
        "job": "compare",
        "step": "0",
        "compared_pull_request": "7",
    }
    assert (dict(base.origin), dict(head.origin)) == (github, github)
    assert (base.commit, head.commit) == (Commit(BASE), Commit(HEAD, "Cache more"))
    assert server.kinds() == {"pairs": "pull_request"}
    assert [comment["issue"] for comment in server.hub.comments] == [7]
    assert "rival" not in server.hub.comments[0]["body"]


def test_keeps_files_of_another_tool_apart(server: Server, tmp_path: Path) -> None:
    files = [
        side(role, sha, origin=(("format", "hyperfine"), ("source", f"{number}" * 64)), session=f"h-{number}")
        for number in (1, 2)
        for role, sha in ((Role.BASE, BASE), (Role.HEAD, HEAD))
    ]
    server.hub.artifact = artifact(tmp_path, tuple(files))

    server.receive_run_event()
    server.process_due_events()

    assert [dict(run.origin)["step"][0] for run in server.runs()] == ["1", "1", "2", "2"]


EQUAL = [a_process(1.0, role=role, pair=0) for role in (Role.BASE, Role.HEAD)]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (
            side(Role.HEAD, NEWER),
            "session x: This token is for the commit aaaaaaaaaaaa, and the document is of ccccccc",
        ),
        (side(Role.HISTORY, BASE, step=5), "session x: This token is for the commit"),
        (
            replace(COMPARED[1], results=(a_result(None, *EQUAL),)),
            "session x: only comparisons of what was committed",
        ),
        (
            side(Role.HEAD, HEAD, commit=Commit(HEAD, dirty=True)),
            "session x: only comparisons of what was committed",
        ),
        (side(Role.BASE, BASE[:12]), "session x: 'bbbbbbbbbbbb' is no commit's full sha"),
        (
            side(Role.HEAD, HEAD, session="nightly"),
            "session nightly: The session nightly belongs to another origin",
        ),
    ],
    ids=["another commit", "a history", "equals", "changed", "abbreviated", "foreign session"],
)
def test_stores_no_runs_of_other_commits(
    server: Server, changed: Run, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    post_run(server, side(Role.HISTORY, BASE, session="nightly", origin=(("run_id", "1"), ("attempt", "1"))))
    stranger = changed if changed.session == "nightly" else replace(changed, session="x")
    server.hub.artifact = artifact(tmp_path, (*COMPARED, stranger))

    server.receive_run_event()
    server.process_due_events()

    assert why in caplog.text
    assert sorted(server.kinds()) == ["nightly", "pairs"]
    assert (len(server.hub.comments), server.events()) == (1, [("done", 0, "")])


def post_run(server: Server, run: Run) -> None:
    body, key = run_document.dump_run(run), run_document.idempotency_key(run)
    headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
    assert server.web.test_client().post("/api/v1/runs", data=body, headers=headers).status_code == 201


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{}", "runs/x.json is not valid perfci.run/1"),
        (b"\x1f\x8b" + b"0" * 100, "runs/x.json is not valid perfci.run/1"),
        (b"[" * 100_000, "runs/x.json is nested too deep."),
        (
            b"[]," * 100_000 + b"[" * 200_000,
            "runs/x.json holds too many objects, lists or values.",
        ),
        (b'{"project": 1, "project": 2}', "runs/x.json has a key twice in one object."),
    ],
    ids=["empty", "packed", "deep", "many", "twice"],
)
def test_stores_the_others_beside_an_unreadable_document(
    server: Server, body: bytes, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ZipFile(whole := io.BytesIO(server.hub.artifact), "a") as archive:
        archive.writestr("runs/x.json", body)
    server.hub.artifact = whole.getvalue()

    server.receive_run_event()
    server.process_due_events()

    assert why in caplog.text
    assert (len(server.runs()), len(server.hub.comments)) == (2, 1)


def test_stores_an_already_uploaded_run_once(server: Server) -> None:
    for run in COMPARED:
        post_run(server, run)

    server.receive_run_event()
    server.process_due_events()

    assert (len(server.runs()), PAGE in server.hub.comments[0]["body"]) == (2, True)
