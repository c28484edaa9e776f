"""From a webhook to comment, check and stored runs, with a real server and database and a fake GitHub."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from test_github_commands import branched as branched
from test_github_commands import job as job

from perfci.config import Settings
from perfci.project_policies import ProjectPolicies
from perfci.service.worker.judge_worker import JudgeWorker
from perfci.store import Store, verdicts_and_change_points
from perfci.store.access import audit_log, github_bindings
from perfci.store.projects import find_project
from tests.support.builders import NOON
from tests.support.databases import database_url as database_url
from tests.support.databases import kind as kind
from tests.support.databases import store as store
from tests.support.github_app_server import PAGE, Server, artifact
from tests.support.github_app_server import description as description
from tests.support.github_app_server import server as server
from tests.support.npm_packages import skip_without_npm
from tests.support.signed_webhooks import (
    SECRET,
    a_bound_project,
    comment_event_payload,
    post,
    workflow_run_event,
)
from tests.support.stateful_github import (
    BASE,
    HEAD,
    NEWER,
    OWNER,
    CannedResponse,
    FakeGitHub,
    ResponseLost,
    Trouble,
    comment,
    pull,
)


def test_a_run_that_ended_becomes_comment_check_and_stored_runs(server: Server) -> None:
    assert server.receive_run_event() == 202

    assert server.process_due_events() == 1

    (report_comment,), (check,) = server.hub.comments, server.hub.checks
    assert report_comment["body"].startswith(
        f"<!-- perfci report acme/model -->\n<!-- at {HEAD} -->\n### perfci: 1 regression"
    )
    assert f"[full report]({PAGE})" in report_comment["body"]
    assert (report_comment["issue"], report_comment["user"]["login"]) == (7, "perfci[bot]")
    assert (check["name"], check["conclusion"], check["app"], check["details_url"]) == (
        "perfci",
        "neutral",
        {"id": 7},
        PAGE,
    )
    assert [(run.commit.sha, dict(run.origin)["run_id"]) for run in server.runs()] == [
        (BASE, "17"),
        (HEAD, "17"),
    ]
    assert (server.kinds(), server.events()) == ({"pairs": "pull_request"}, [("done", 0, "")])


def test_judges_stored_runs_on_the_server(server: Server) -> None:
    server.receive_run_event()
    server.process_due_events()

    JudgeWorker(server.store, lambda _: ProjectPolicies(), clock=lambda: server.now).drain()

    with server.store.read() as tx:
        of_pull = {"base": BASE, "head": HEAD, "with_pull_requests": True}
        (verdict,) = verdicts_and_change_points.load_verdict_records(tx, "acme/model", **of_pull)
    assert (verdict.verdict.kind, round(verdict.verdict.ratio or 0, 2)) == ("regression", 1.2)


def test_a_repeated_delivery_writes_nothing(server: Server) -> None:
    server.receive_run_event()
    server.process_due_events()
    before = list(server.hub.writes)

    answers = [server.receive_run_event(), server.receive_run_event("d-2")]

    assert (answers, server.process_due_events()) == ([200, 202], 1)
    assert [
        each_write for each_write in server.hub.writes[len(before) :] if "access_tokens" not in each_write
    ] == []
    assert len(server.runs()) == 2


@pytest.mark.parametrize("trouble", [CannedResponse(502), ResponseLost])
def test_recovers_from_a_crash_between_check_and_comment(
    server: Server, trouble: Trouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = server.hub.handle_request
    failed: list[str] = []

    def once(request: Any) -> Any:
        if request.method == "POST" and request.url.path.endswith("/comments") and not failed:
            failed.append(request.url.path)
            server.hub.troubles = [trouble]
        return answer(request)

    monkeypatch.setattr(server.hub, "handle_request", once)
    server.receive_run_event()
    server.process_due_events()
    server.restart_worker()

    server.process_due_events()

    assert (len(server.hub.comments), len(server.hub.checks), len(server.runs())) == (1, 1, 2)
    assert [state for state, _, _ in server.events()] == ["done"]


def test_another_worker_takes_over_after_a_crash(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    server.receive_run_event()
    monkeypatch.setattr("perfci.service.pulls.pull_reporter.report_to_pull", dies)
    with pytest.raises(KeyboardInterrupt):
        server.process_due_events()
    monkeypatch.undo()
    server.inbox_loop._lease.release()
    server.restart_worker()

    server.process_due_events()

    assert (len(server.hub.comments), len(server.runs()), server.events()) == (1, 2, [("done", 0, "")])


def test_retries_later_if_github_does_not_answer(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.hub.troubles = [CannedResponse(503), CannedResponse(503)]
    server.receive_run_event()

    server.process_due_events()
    ((state, attempts, problem),) = server.events()
    server.process_due_events()
    server.process_due_events()

    assert (state, attempts) == ("waiting", 1)
    assert problem.startswith("GitHub could not make a token for installation 44: 503")
    assert (
        "17 (completed) of acme/model is tried again at 2026-03-01 12:00:30 UTC: GitHub could not"
        in caplog.text
    )
    assert (server.events(), len(server.hub.comments)) == ([("done", 2, "")], 1)


def test_waits_for_a_rate_limit(server: Server) -> None:
    server.hub.troubles = [CannedResponse(429, {"Retry-After": "600"})]
    server.receive_run_event()

    done = [server.process_due_events() for _ in range(11)]

    assert (done, len(server.hub.comments)) == ([1, *[0] * 9, 1], 1)


def test_a_refused_request_is_not_retried(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.hub.troubles = [
        None,
        CannedResponse(403, {"X-Accepted-GitHub-Permissions": "actions=read"}, "Not accessible"),
    ]
    server.receive_run_event()

    server.process_due_events()

    why = (
        "GitHub refused to read workflow run 17 of acme/model: 403 Not accessible. The token needs "
        "the permission actions: read."
    )
    client = server.web.test_client()
    assert server.events() == [("failed", 1, why)]
    assert f"17 (completed) of acme/model is given up: {why}" in caplog.text
    assert client.get("/readyz").json["warnings"] == [
        "1 workflow run could not be reported on a pull request: see `perfci db check`."
    ]
    assert "perfci_run_events_failed 1.0" in client.get("/metrics").text.splitlines()


def test_a_redelivery_restarts_an_abandoned_run(server: Server) -> None:
    server.hub.troubles = [CannedResponse(404)]
    server.receive_run_event()
    server.process_due_events()

    again = server.receive_run_event()

    assert (again, server.process_due_events(), server.events(), len(server.hub.comments)) == (
        202,
        1,
        [("done", 0, "")],
        1,
    )


def test_gives_up_after_five_hours(server: Server) -> None:
    server.receive_run_event()
    server.hub.troubles = [CannedResponse(503)] * 20

    for _ in range(8 * 4):
        server.process_due_events()
        server.now += timedelta(minutes=14)

    ((state, attempts, _),) = server.events()
    assert (state, attempts, len(server.hub.troubles)) == ("failed", 10, 10)


def test_retries_and_records_an_internal_error(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        "perfci.service.pulls.github_event_handler.find_open_pulls_of_run", lambda client, ran: 1 / 0
    )
    server.receive_run_event()

    server.process_due_events()

    assert server.events() == [("waiting", 1, "ZeroDivisionError: division by zero")]
    assert "Traceback" in caplog.text


def gone(hub: FakeGitHub) -> None:
    hub.run = {"head_repository": None}


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (
            lambda hub: hub.pulls.__setitem__(0, pull(head=NEWER)),
            "acme/model#7 is at cccccccccccc by now and ",
        ),
        (
            lambda hub: hub.pulls[0].update(state="closed"),
            "No open pull request of acme/model comes from acme:faster.",
        ),
        (gone, "Workflow run 17 of acme/model came from a fork that is gone; it has no report."),
        (
            lambda hub: hub.run.update(status="in_progress"),
            "The run is in_progress by now; GitHub sends its own event.",
        ),
        (
            lambda hub: hub.run.update(path=".github/workflows/lint.yml"),
            "The project is bound to another repository or",
        ),
        (
            lambda hub: hub.run.update(event="push", path=".github/x.yml"),
            "The project is bound to another repository or",
        ),
        (
            lambda hub: hub.run.update(
                repository={"id": 1, "full_name": "acme/model", "owner": OWNER | {"id": 11}}
            ),
            "The project is bound to another repository or workflow by now.",
        ),
    ],
    ids=["moved", "closed", "fork gone", "begun again", "workflow", "event", "owner"],
)
def test_skips_an_outdated_run(server: Server, happens: Callable[[FakeGitHub], None], why: str) -> None:
    server.receive_run_event()
    happens(server.hub)

    server.process_due_events()

    ((state, attempts, problem),) = server.events()
    assert (state, attempts, problem[: len(why)]) == ("done", 0, why)
    assert [each_write for each_write in server.hub.writes if "access_tokens" not in each_write] == []
    assert server.runs() == []


def test_skips_an_unbound_project(server: Server) -> None:
    server.receive_run_event()
    with server.store.begin() as tx:
        project = find_project(tx, "acme/model")
        assert project is not None
        github_bindings.unbind_repository(tx, project.id)

    server.process_due_events()

    assert server.events() == [("done", 0, "The project is archived, or bound to no repository any more.")]
    assert server.hub.received_requests == []


def test_a_project_with_another_name_has_its_own_comment(server: Server, store: Store) -> None:
    a_bound_project(store, NOON, "team one/gpu")

    server.receive_run_event()
    server.process_due_events()

    assert sorted(each_comment["body"].splitlines()[0] for each_comment in server.hub.comments) == [
        "<!-- perfci report acme/model -->",
        "<!-- perfci report team%20one/gpu -->",
    ]
    assert sorted(check["name"] for check in server.hub.checks) == ["perfci", "perfci/team one/gpu"]
    assert len(server.runs("acme/model")) == 2


def test_reports_a_run_of_a_fork_on_its_pull_request(server: Server) -> None:
    fork = {"id": 2, "full_name": "fork2/model"}
    server.hub.pulls = [pull(7, repository=2), pull(8, repository=3)]
    server.hub.run = {"head_repository": fork}

    server.receive_run_event(proposal=server.hub.pulls[0])
    server.process_due_events()

    assert [each_comment["issue"] for each_comment in server.hub.comments] == [7]


def test_an_accept_comment_of_a_writer_accepts_regressions(server: Server) -> None:
    server.receive_run_event()
    server.process_due_events()
    before = server.hub.checks[0]["conclusion"]
    accepts = "/perfci accept aaaaaaaaaa the cache is worth it"
    server.hub.comments.append(comment(5000, accepts, "bob"))
    server.hub.measured = [NEWER, HEAD]

    post(server.web, "issue_comment", comment_event_payload(accepts), "d-2")
    server.process_due_events()

    (check,), (report_comment, _) = server.hub.checks, server.hub.comments
    assert (before, check["conclusion"]) == ("neutral", "success")
    assert "the cache is worth it" in report_comment["body"]
    assert [state for state, _, _ in server.events()] == ["done", "done"]


def test_cannot_accept_results_that_were_removed(server: Server) -> None:
    post(
        server.web,
        "issue_comment",
        skip_without_npm(lambda: comment_event_payload("/perfci accept aaaaaaaaaa because")),
    )

    server.process_due_events()

    assert server.events() == [
        ("done", 0, "No results of the newest commit are kept: they have to be measured again.")
    ]


@pytest.mark.parametrize("action", ["requested", "in_progress"])
def test_marks_the_comment_as_outdated_while_a_newer_commit_is_measured(server: Server, action: str) -> None:
    server.receive_run_event()
    server.process_due_events()
    server.hub.pulls = [pull(head=NEWER)]
    server.hub.run = {"head_sha": NEWER, "status": "in_progress", "conclusion": None}

    server.receive_run_event("d-2", action=action, proposal=server.hub.pulls[0])
    server.process_due_events()

    (report_comment,) = server.hub.comments
    assert (
        report_comment["body"]
        .splitlines()[2]
        .startswith("> **Outdated:** there is a newer head, `cccccccccc`")
    )
    assert (len(server.hub.checks), [state for state, _, _ in server.events()]) == (1, ["done", "done"])


@pytest.mark.parametrize(
    ("conclusion", "title", "says"),
    [
        ("cancelled", "Not run", "The run was cancelled before there was a result, so nothing is known"),
        ("failure", "Not run", "Measurement failed before there was a result, so nothing is known"),
    ],
)
def test_reports_a_run_without_artifact(server: Server, conclusion: str, title: str, says: str) -> None:
    server.hub.artifact, server.hub.run = b"", {"conclusion": conclusion}

    server.receive_run_event()
    server.process_due_events()

    (report_comment,), (check,) = server.hub.comments, server.hub.checks
    assert says in report_comment["body"]
    assert "[log](https://github.com/acme/model/actions/runs/17/attempts/1)" in report_comment["body"]
    assert (check["output"]["title"][: len(title)], server.runs()) == (title, [])


def test_does_not_report_a_run_waiting_for_approval(server: Server) -> None:
    server.hub.artifact, server.hub.run = b"", {"conclusion": "action_required"}

    server.receive_run_event()
    server.process_due_events()

    assert server.events() == [("done", 0, "Nothing was measured: the run ended as action_required.")]
    assert (server.hub.comments, server.hub.checks) == ([], [])


def test_the_audit_log_names_the_sender(server: Server) -> None:
    server.receive_run_event()
    server.process_due_events()

    with server.store.read() as tx:
        project = find_project(tx, "acme/model")
        assert project is not None
        (line,) = audit_log.list_entries(tx, project.id)
    assert (line.actor, line.action, line.request_id) == ("github-repository/1", "run.receive", "d-1")


def test_a_gate_turns_the_check_red(
    store: Store, hub: FakeGitHub, app_keys: tuple[str, str], tmp_path: Path
) -> None:
    pem, hub.public_key = app_keys
    hub.artifact = artifact(tmp_path)
    a_bound_project(store, NOON)
    server = Server(store, hub, pem, Settings.model_validate({"app": {"id": "Iv1.7", "gate": "block"}}))

    server.receive_run_event()
    server.process_due_events()
    server.web.extensions["perfci"].group_commit.close()

    (report_comment,), (check,) = hub.comments, hub.checks
    assert check["conclusion"] == "failure"
    assert "full report" not in report_comment["body"]  # without a public address there is no page to lead to


def test_logs_and_responses_contain_no_secrets(
    server: Server, app_keys: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.WARNING, "httpx")  # as a server has it: addresses of files are as good as keys
    server.hub.troubles = [None, CannedResponse(403)]
    answers = [server.web.test_client().get("/metrics").text]

    server.receive_run_event()
    server.process_due_events()
    answers.append(post(server.web, "workflow_run", workflow_run_event()).text)
    server.process_due_events()

    all_output = caplog.text + "".join(answers) + json.dumps(server.events()) + server.hub.comments[0]["body"]
    for secret in (SECRET, "ghs_1", "s3cret", app_keys[0].splitlines()[1]):
        assert secret not in all_output
    assert any("sig=s3cret" in str(item.url) for item in server.hub.received_requests)


def test_artifacts_count_as_uploads_of_their_project(server: Server) -> None:
    few = {"uploads_per_minute_mb": 0.0001, "public_url": "https://perf.example.com"}
    server.settings = Settings.model_validate({"app": {"id": "Iv1.7"}, "server": few})
    server.restart_worker()
    server.receive_run_event()
    server.process_due_events()

    server.receive_run_event("d-2")
    server.process_due_events()

    [first, (state, attempts, problem)] = server.events()
    assert (first, state, attempts) == (("done", 0, ""), "waiting", 1)
    assert problem == "The pull requests of this project bring more than [server] uploads_per_minute_mb."
    assert len(server.runs()) == 2
