"""A measurement ordered on a pull request: from the comment to the answer, with a real server and database,
a GitHub that remembers, and a stand-in for its runners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from perfci.auth.permissions import LOCAL
from perfci.config import Settings
from perfci.formats import run_document
from perfci.github.order_run import ORDER_RUN_TITLE
from perfci.model import Commit, Role, Stage, Verdict, VerdictKind
from perfci.project_policies import ProjectPolicies
from perfci.report.pulls.not_measured_comment import NotMeasuredReason
from perfci.scaffold.workflow_templates import MEASURE_WORKFLOW
from perfci.service.audit_context import AuditContext
from perfci.service.orders.carry_out_orders import (
    OrderResult,
    claim_order,
    finish_order,
    heartbeat_order,
)
from perfci.service.orders.place_orders import cancel_order, place_order
from perfci.service.pulls.github_order_engine import format_run_title
from perfci.service.pulls.poll_missed_events import ReconciliationPoll
from perfci.service.pulls.results_artifact_files import PullResults, write_pull_results
from perfci.service.uploads.receive_runs import IncomingRun, store_uploaded_runs
from perfci.service.worker.judge_worker import JudgeWorker
from perfci.store import Store, open_store
from perfci.store.jobs.measurement_orders import MeasurementOrder, OrderContent, list_orders
from perfci.store.projects import find_project
from tests.support.builders import NOON, a_process, a_result, a_run, a_sha
from tests.support.comment_forms import build_findings, same, slower, training
from tests.support.databases import fresh_database
from tests.support.github_app_server import PAGE, Server, side, zipped
from tests.support.github_app_server import description as description
from tests.support.github_app_server import server as server
from tests.support.github_payloads import example
from tests.support.pull_request_uploads import LATER, judge, main_run, pull_run, timed
from tests.support.report_builders import a_verdict
from tests.support.signed_webhooks import INSTALLATION, SETTINGS, comment_event_payload, post
from tests.support.stateful_github import (
    BASE,
    HEAD,
    NEWER,
    OWNER,
    CannedResponse,
    FakeGitHub,
    ResponseLost,
    Trouble,
    a_workflow_run,
    comment,
    pull,
)

Json = dict[str, Any]
COMMENT_ID = 501
CANDIDATE = replace(slower(), stage=Stage.SCREENING)
REFUTED = a_verdict(
    VerdictKind.UNCHANGED, 1.001, (0.99, 1.01), series=training(), reason="+0.1 % over 20 pairs."
)
REPOSITORY: Json = {"id": 1, "full_name": "acme/model", "owner": OWNER}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with fresh_database("sqlite", tmp_path) as url, closing(open_store(url, create=False)) as store:
        yield store


def results(folder: Path, *verdicts: Verdict, run: int = 17, base: str = BASE) -> bytes:
    """What a run hands over: its verdicts, and the runs of both sides."""
    sides = {"base": Commit(base), "head": Commit(HEAD)}
    findings = replace(build_findings(list(verdicts), report_url=""), **sides)
    write_pull_results(folder, PullResults("acme/model", **sides, findings=findings))
    origin = (("attempt", "1"), ("event", "workflow_dispatch"), ("run_id", str(run)))
    commits = {"base": base, "head": HEAD}
    documents = {
        f"runs/{role}.json": run_document.dump_run(
            replace(side(Role(role), sha, step=int(role == "head"), session=f"pairs-{run}"), origin=origin)
        ).encode()
        for role, sha in commits.items()
    }
    return zipped({"findings.json": (folder / "findings.json").read_bytes(), **documents})


def not_measured(folder: Path, reason: NotMeasuredReason, detail: str = "") -> bytes:
    sides = Commit(BASE), Commit(HEAD)
    write_pull_results(folder, PullResults("acme/model", *sides, not_measured=reason, detail=detail))
    return zipped({"findings.json": (folder / "findings.json").read_bytes()})


def say(
    server: Server, body: str, login: str = "bob", *, number: int = COMMENT_ID, delivery: str = "c-1"
) -> int:
    """Somebody writes a comment, of which GitHub tells."""
    if not any(item["id"] == number for item in server.hub.comments):
        server.hub.comments.append(comment(number, body, login))
    payload = comment_event_payload(body)
    payload["comment"]["id"] = number
    return post(server.web, "issue_comment", payload, delivery).status_code


def set_label(server: Server, login: str = "bob", name: str = "perfci", delivery: str = "l-1") -> int:
    """Somebody sets a label on pull request 7."""
    label = {"name": name}
    server.hub.pulls[0]["labels"] = [label]
    server.hub.events.append(
        {"issue": 7, "event": "labeled", "actor": {"id": 3, "login": login}, "label": label}
    )
    changes = {"number": 7, "pull_request": pull(), "label": label, "repository": REPOSITORY}
    payload = example("pull_request", "labeled", **changes) | {
        "installation": {"id": INSTALLATION, "node_id": "MDIz"}
    }
    return post(server.web, "pull_request", payload, delivery).status_code


def end_run(server: Server, content: bytes = b"", conclusion: str = "success", **changes: Any) -> None:
    """The stand-in for a runner: the newest run goes to its end, and leaves what it measured."""
    run = server.hub.dispatched[-1]
    run |= {"status": "completed", "conclusion": conclusion} | changes
    if content:
        server.hub.artifacts[run["id"]] = content
    tell_of_run(server, "completed")


def tell_of_run(server: Server, action: str) -> None:
    run = server.hub.dispatched[-1]
    sent = {"workflow_run": {name: run[name] for name in run if name != "inputs"}, "repository": REPOSITORY}
    payload = example("workflow_run", "completed" if action == "completed" else "requested", **sent)
    payload |= {"action": action, "installation": {"id": INSTALLATION, "node_id": "MDIz"}}
    payload["workflow_run"]["repository"] = REPOSITORY
    answer = post(server.web, "workflow_run", payload, f"r-{action.replace('_', '-')}-{run['id']}")
    assert answer.status_code in (200, 202), answer.text


def work(server: Server, minutes: int = 2) -> None:
    for _ in range(minutes):
        server.process_due_events()


def orders(server: Server) -> list[MeasurementOrder]:
    with server.store.read() as tx:
        project = find_project(tx, "acme/model")
        assert project is not None
        return list_orders(tx, project.id)[::-1]


def own_comments(server: Server) -> list[str]:
    """What the App says on the pull request, without the hidden lines."""
    said = [item["body"] for item in server.hub.comments if item["user"]["login"] == "perfci[bot]"]
    return ["\n".join(line for line in body.split("\n") if not line.startswith("<!--")) for body in said]


def order_line(server: Server) -> str:
    [body] = own_comments(server)
    return body.split("\n")[0]


@pytest.fixture
def ordered(server: Server) -> Server:
    """Somebody ordered all that the default suite has, and it was sent to GitHub."""
    server.hub.pulls = [pull()]
    assert say(server, "/perfci run") == 202
    work(server)
    return server


def test_a_comment_becomes_a_measurement_and_its_answer(server: Server, tmp_path: Path) -> None:
    server.hub.pulls, server.hub.artifact = [pull()], results(tmp_path, CANDIDATE, *same(1))
    server.hub.measured = [HEAD]
    server.receive_run_event()
    work(server, 1)
    before = own_comments(server)

    assert say(server, "/perfci run `^model.*measure_training` 20\r\nthank you") == 202
    work(server)

    [order] = orders(server)
    [started] = server.hub.dispatched
    assert (order.content.base_sha, order.content.head_sha, order.state) == (BASE, HEAD, "dispatched")
    assert [(request.requested_by, request.comment_id) for request in order.requests] == [
        ("github:bob", COMMENT_ID)
    ]
    assert started["inputs"] == {
        "order": started["display_title"].removeprefix("perfci order "),
        "base": BASE,
        "head": HEAD,
        "bench": "^model.*measure_training",
        "pairs": "20",
        "suite": "",
    }
    assert (started["head_branch"], server.hub.reactions) == ("faster", [(COMMENT_ID, "eyes")])
    url = "https://github.com/acme/model/actions/runs/900"
    line = "> **Ordered** by `bob`: `^model.*measure_training`, 20 pairs · "
    assert order_line(server) == f"{line}[waiting for a runner]({url})"
    assert "1 candidate regression" in before[0]
    assert own_comments(server)[0].endswith(before[0])

    started["status"] = "in_progress"
    tell_of_run(server, "in_progress")
    work(server, 1)
    assert order_line(server) == f"{line}[running]({url})"

    end_run(server, results(tmp_path, REFUTED, run=900))
    work(server, 1)

    [order] = orders(server)
    [answer] = own_comments(server)
    assert (order.state, order.external_run, order.attempts) == ("done", "900", 1)
    assert order.result == {
        "verdict": "unchanged",
        "counts": {"unchanged": 1},
        "sessions": ["pairs-900"],
    }
    assert order_line(server) == f"{line}[done]({url}), `1 unchanged`"
    assert "candidate" not in answer
    assert "2 unchanged" in answer
    assert f"[full report]({PAGE})" in answer
    assert [check["conclusion"] for check in server.hub.checks] == ["success"]
    assert server.kinds()["pairs-900"] == "pull_request"


def test_a_comment_orders_a_bisect_of_the_pull_request(server: Server) -> None:
    server.hub.pulls = [pull()]

    say(server, "/perfci bisect `^model.*measure_training` 60")
    work(server)

    [order] = orders(server)
    assert (order.content.kind, order.content.base_sha, order.content.head_sha) == ("bisect", BASE, HEAD)
    assert (order.content.engine, order.content.max_processes) == ("local", 60)
    assert order_line(server) == "> **Ordered** by `bob`: `bisect ^model.*measure_training` · queued"


def test_a_later_report_of_the_pull_request_keeps_the_answer(ordered: Server, tmp_path: Path) -> None:
    ordered.hub.artifact, ordered.hub.measured = results(tmp_path, CANDIDATE, *same(1)), [HEAD]
    end_run(ordered, results(tmp_path, REFUTED, run=900))
    work(ordered)
    answered = own_comments(ordered)

    ordered.receive_run_event("again")
    work(ordered, 1)

    assert own_comments(ordered) == answered
    assert "candidate" not in answered[0]


def test_an_answer_keeps_what_was_uploaded(server: Server, tmp_path: Path) -> None:
    server.now, server.hub.pulls, server.hub.artifact = LATER, [pull()], b""
    server.hub.pulls[0]["base"]["repo"]["owner"] = OWNER
    server.hub.merge_base = a_sha(12)
    judge(server.store, [main_run(number) for number in range(1, 13)])
    judge(server.store, [pull_run(timed(1.2), commit=Commit(HEAD))], HEAD)
    work(server, 1)
    [uploaded] = own_comments(server)
    say(server, "/perfci run")
    work(server)

    end_run(server, results(tmp_path, REFUTED, run=900, base=a_sha(12)))
    work(server)

    [answer] = own_comments(server)
    assert "1 upload of this head against 12 runs" in uploaded
    assert "`training.Step.time_step`" in answer
    assert "1 unchanged" in answer


@pytest.mark.parametrize("trouble", [CannedResponse(502), ResponseLost])
def test_a_failure_at_each_request_costs_neither_order_nor_answer(
    server: Server, tmp_path: Path, trouble: Trouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every operation fails the first time that it is asked for: before it was done, or after it."""
    failed = fail_each_operation_once(server.hub, trouble, monkeypatch)
    server.hub.pulls = [pull()]
    say(server, "/perfci run ^train")
    work_until(server, lambda: [order.external_run for order in orders(server)] == ["900"])
    server.restart_worker()
    server.hub.artifact = b""
    end_run(server, results(tmp_path, slower(), run=900))
    work_until(server, lambda: orders(server)[0].state == "done")
    work_until(server, lambda: server.events()[0][0] == "done" and "done" in order_line(server))

    assert [(order.state, len(order.requests)) for order in orders(server)] == [("done", 1)]
    assert (len(server.hub.dispatched), server.hub.reactions) == (1, [(COMMENT_ID, "eyes")])
    assert ["1 regression" in body for body in own_comments(server)] == [True]
    assert (len(server.hub.checks), server.kinds()) == (1, {"pairs-900": "pull_request"})
    assert len(failed) > 12


def fail_each_operation_once(
    hub: FakeGitHub, trouble: Trouble, monkeypatch: pytest.MonkeyPatch
) -> set[tuple[str, str]]:
    failed: set[tuple[str, str]] = set()
    answer = hub.handle_request

    def handle(request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if not path.startswith("/signed/"):
            operation = hub.description.operation(request.method, path)
            if (operation.method, operation.path) not in failed:
                failed.add((operation.method, operation.path))
                hub.troubles = [trouble]
        return answer(request)

    monkeypatch.setattr(hub, "handle_request", handle)
    return failed


def work_until(server: Server, is_over: Callable[[], bool], most: int = 60) -> None:
    for _ in range(most):
        server.process_due_events()
        if is_over():
            return
        if all(order.external_run for order in orders(server)):
            server.now += timedelta(minutes=20)  # no lease ends meanwhile, and a failed event waits for hours
    pytest.fail(f"not over after {most} minutes: {server.events()} {orders(server)}")


def test_two_who_order_the_same_get_one_measurement_and_one_answer(server: Server, tmp_path: Path) -> None:
    server.hub.pulls, server.hub.artifact = [pull()], b""

    answers = [
        say(server, "/perfci run"),
        set_label(server, "ada"),
        say(server, "/perfci run"),
        set_label(server, "ada"),
        say(server, "/perfci run", delivery="c-2"),
    ]
    work(server)
    end_run(server, results(tmp_path, slower(), run=900))
    tell_of_run(server, "completed")
    work(server)

    [order] = orders(server)
    assert answers == [202, 202, 200, 200, 202]
    assert [(request.requested_by, request.source) for request in order.requests] == [
        ("github:bob", "comment"),
        ("github:ada", "label"),
    ]
    assert (order.state, len(server.hub.dispatched), len(server.hub.checks)) == ("done", 1, 1)
    assert order_line(server).startswith("> **Ordered** by `bob`, `ada`: default benchmarks · [done](")
    assert len(own_comments(server)) == 1


@pytest.mark.parametrize(
    "asks",
    [
        lambda server: say(server, "/perfci run", "mallory"),
        lambda server: set_label(server, "mallory"),
        lambda server: set_label(server, name="bug"),
        lambda server: say(server, "/perfci runs everything"),
        lambda server: say(server, "please /perfci run"),
    ],
    ids=["stranger's comment", "stranger's label", "another label", "another word", "not at the beginning"],
)
def test_nothing_happens_for_others(server: Server, asks: Callable[[Server], int]) -> None:
    server.hub.pulls = [pull()]

    asks(server)
    work(server)

    assert (orders(server), own_comments(server), server.hub.reactions) == ([], [], [])
    assert server.hub.dispatched == []


NO_EXPRESSION = "'[' is not a regular expression: unterminated character set at position 0"
FORK = (
    "This pull request comes from a fork. Its code runs in the workflow run of the pull request alone, which "
    "may write nothing: run that one again instead."
)


@pytest.mark.parametrize(
    ("body", "proposal", "why"),
    [
        (
            "/perfci run [",
            pull(),
            "'[' is not a regular expression: unterminated character set at position 0",
        ),
        ("/perfci run --help", pull(), "An expression must not begin with a dash: write [-] for one."),
        ("/perfci run ^train 3", pull(), "4 to 200 pairs can be ordered, not 3."),
        ("/perfci run", pull(repository=2), FORK),
        ("/perfci run", pull() | {"state": "closed"}, "This pull request is closed."),
        ("/perfci run", pull(head=BASE), "This pull request has no commit that its target branch lacks."),
    ],
    ids=["no expression", "an option", "too few pairs", "a fork", "closed", "nothing new"],
)
def test_says_why_something_cannot_be_ordered(server: Server, body: str, proposal: Json, why: str) -> None:
    server.hub.pulls = [proposal]

    say(server, body)
    say(server, body, delivery="c-2")
    work(server)

    assert (orders(server), server.hub.reactions) == ([], [(COMMENT_ID, "confused")])
    assert set(own_comments(server)) == {f"\nNot ordered by `bob`: `{why}`".strip("\n")}


def test_a_lost_run_is_started_again(ordered: Server, tmp_path: Path) -> None:
    end_run(ordered, conclusion="failure")
    work(ordered)
    second = ordered.hub.dispatched[-1]["id"]
    end_run(ordered, results(tmp_path, slower(), run=second))
    work(ordered)

    assert second == 901
    assert [(order.state, order.external_run, order.attempts) for order in orders(ordered)] == [
        ("done", "901", 2)
    ]


def test_an_order_is_given_up_after_three_lost_runs(ordered: Server) -> None:
    for _ in range(3):
        end_run(ordered, conclusion="startup_failure")
        work(ordered, 3)

    [order], url = orders(ordered), "https://github.com/acme/model/actions/runs/902"
    assert (order.state, len(ordered.hub.dispatched)) == ("failed", 3)
    assert order.problem == (
        f"The run {url} ended as startup_failure and left no results. It was attempted 3 times."
    )
    assert order_line(ordered).endswith(
        f"[failed](https://github.com/acme/model/actions/runs/902), `{order.problem}`"
    )


def test_a_run_that_is_cancelled_on_github_closes_the_order(ordered: Server) -> None:
    end_run(ordered, conclusion="cancelled")
    work(ordered)

    [order] = orders(ordered)
    assert (order.state, order.problem) == ("cancelled", "Cancelled on GitHub, or out of time.")
    assert len(ordered.hub.dispatched) == 1
    assert "[cancelled](" in order_line(ordered)


def test_a_cancelled_order_cancels_its_run(ordered: Server) -> None:
    [order] = orders(ordered)
    with ordered.store.begin() as tx:
        cancel_order(tx, AuditContext(LOCAL, ordered.now), order)

    work(ordered)

    assert ordered.hub.cancelled == [900]
    assert order_line(ordered).endswith(", `Cancelled by local.`")


def test_a_measurement_that_fails_keeps_what_is_known(ordered: Server, tmp_path: Path) -> None:
    end_run(ordered, not_measured(tmp_path, NotMeasuredReason.BROKEN, "no benchmark matches '^train'"))
    work(ordered)

    [order] = orders(ordered)
    assert (order.state, order.problem) == ("failed", "no benchmark matches '^train'")
    assert len(ordered.hub.dispatched) == 1
    assert ordered.hub.checks == []


def test_results_of_other_commits_are_no_answer(ordered: Server, tmp_path: Path) -> None:
    end_run(ordered, results(tmp_path, slower(), run=900, base=NEWER))
    work(ordered)

    [order] = orders(ordered)
    assert order.state == "failed"
    assert "about the base cccccccccccc, and another one was ordered" in order.problem
    assert (ordered.hub.checks, ordered.runs()) == ([], [])


def test_an_answer_about_an_older_commit_is_kept_and_not_shown(ordered: Server, tmp_path: Path) -> None:
    ordered.hub.pulls[0]["head"]["sha"] = NEWER
    end_run(ordered, results(tmp_path, slower(), run=900))
    work(ordered)

    assert ([order.state for order in orders(ordered)], ordered.hub.checks) == (["done"], [])
    assert "regression" not in own_comments(ordered)[0]


def test_a_workflow_that_takes_no_orders_fails_them(server: Server) -> None:
    server.hub.pulls = [pull()]
    say(server, "/perfci run")
    answer = server.hub.handle_request

    def refuse(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/dispatches"):
            server.hub.troubles = [CannedResponse(422, {}, "Unexpected inputs provided: order")]
        return answer(request)

    server.hub.handle_request = refuse  # type: ignore[method-assign]
    work(server)

    [order] = orders(server)
    assert order.state == "failed"
    assert order.problem == (
        "GitHub refused to start perf.yml of acme/model: 422 Unexpected inputs provided: order."
    )


@pytest.fixture
def worked(server: Server) -> Server:
    """The App leaves what is ordered to workers of one's own."""
    server.hub.pulls = [pull()]
    server.settings = Settings.model_validate(
        SETTINGS.model_dump() | {"app": {"id": "Iv1.7", "order_engine": "local"}}
    )
    server.restart_worker()
    return server


def test_progress_of_a_worker_is_shown_every_half_minute_at_most(worked: Server) -> None:
    server = worked
    say(server, "/perfci run 10")
    server.inbox_loop.drain()
    with server.store.begin() as tx:
        order = claim_order(tx, "local", "box", server.now)
        assert order is not None
    lines = []
    for pairs in range(1, 8):
        with server.store.begin() as tx:
            heartbeat_order(tx, order.id, order.lease_token, server.now, f"{pairs} of 10 pairs")
        server.inbox_loop.drain()
        server.now += timedelta(seconds=10)
        lines.append(order_line(server).partition("running, ")[2])

    with server.store.begin() as tx:
        assert finish_order(
            tx, order, server.now, OrderResult("regression", {"regression": 1, "unchanged": 2})
        )
    server.inbox_loop.drain()

    assert lines == [f"`{pairs} of 10 pairs`" for pairs in (1, 1, 1, 4, 4, 4, 7)]
    assert order_line(server).endswith(f", 10 pairs · [done]({PAGE}), `1 regression, 2 unchanged`")
    assert server.hub.dispatched == []


def measure_as_worker(server: Server, level: float, session: str) -> None:
    """A worker claims the order, sends ten pairs of both commits and closes it."""
    with server.store.begin() as tx:
        order = claim_order(tx, "local", "box", server.now)
        assert order is not None
    for role, sha in ((Role.BASE, BASE), (Role.HEAD, HEAD)):
        processes = [
            a_process((level if role is Role.HEAD else 1.0) + pair / 1e4, role=role, pair=pair, index=pair)
            for pair in range(10)
        ]
        run = a_run(
            a_result(training(), *processes),
            commit=Commit(sha),
            session=session,
            machine=training().machine,
            harness=training().harness,
        )
        key, context = run_document.idempotency_key(run), AuditContext(LOCAL, server.now)
        with server.store.begin() as tx:
            project = find_project(tx, run.project)
            assert project is not None
            store_uploaded_runs(tx, [IncomingRun(run, key, key, project, context)])
    with server.store.begin() as tx:
        assert finish_order(tx, order, server.now, OrderResult("unchanged", {"unchanged": 1}, (session,)))


def judge_uploads(server: Server) -> None:
    JudgeWorker(server.store, lambda _: ProjectPolicies()).drain()


def test_the_verdicts_of_a_worker_replace_those_of_the_same_series(worked: Server, tmp_path: Path) -> None:
    worked.hub.artifact, worked.hub.measured = results(tmp_path, CANDIDATE, *same(1)), [HEAD]
    worked.receive_run_event()
    say(worked, "/perfci run")
    work(worked, 3)
    measure_as_worker(worked, 1.0, "worker-1")

    work(worked, 1)
    [waiting] = own_comments(worked)
    judge_uploads(worked)
    work(worked, 1)
    [answer] = own_comments(worked)

    assert order_line(worked) == f"> **Ordered** by `bob`: default benchmarks · [done]({PAGE}), `1 unchanged`"
    assert "1 candidate regression" in waiting
    assert "candidate" not in answer
    assert "2 unchanged" in answer
    assert f"[full report]({PAGE})" in answer
    assert [check["conclusion"] for check in worked.hub.checks] == ["success"]


def test_a_worker_answers_where_nothing_else_was_measured(worked: Server) -> None:
    worked.hub.artifact = b""
    say(worked, "/perfci run")
    work(worked)
    measure_as_worker(worked, 1.2, "worker-1")
    judge_uploads(worked)

    work(worked, 1)
    answered = own_comments(worked)
    worked.restart_worker()
    work(worked)

    assert "1 regression" in answered[0].split("\n", 2)[2]
    assert own_comments(worked) == answered
    assert len(worked.hub.checks) == 1


def test_an_answer_of_a_worker_about_an_older_commit_is_not_shown(worked: Server) -> None:
    worked.hub.artifact = b""
    say(worked, "/perfci run")
    work(worked)
    worked.hub.pulls[0]["head"]["sha"] = NEWER
    measure_as_worker(worked, 1.2, "worker-1")
    judge_uploads(worked)
    work(worked)

    assert worked.hub.checks == []
    assert "regression" not in own_comments(worked)[0]


def test_the_poll_finds_an_order_that_was_not_delivered_once(server: Server) -> None:
    server.hub.pulls = [pull()]
    server.hub.comments = [
        comment(COMMENT_ID, "/perfci run ^a", "bob"),
        comment(502, "/perfci run ^b", "bob") | {"updated_at": f"{NOON:%Y-%m-%dT%H:%M:%SZ}"},
    ]
    poll = ReconciliationPoll(server.store, server.app)

    found = [poll(server.now), poll(server.now)]
    work(server, 6)
    server.hub.comments[0]["updated_at"] = "2026-03-01T11:45:00Z"

    assert (found, poll(server.now)) == ([1, 0], 1)  # the second comment is old enough by now
    assert [order.content.bench for order in orders(server)] == ["^a"]


def order_by_page(server: Server, **changes: Any) -> None:
    """Somebody orders two commits of no pull request, such as by the button on a candidate change."""
    content = replace(OrderContent("compare", BASE, HEAD, engine="github"), **changes)
    with server.store.begin() as tx:
        project = find_project(tx, "acme/model")
        assert project is not None
        place_order(tx, AuditContext(LOCAL, server.now), project, content, "page")


def test_an_order_of_no_pull_request_runs_on_the_default_branch(server: Server, tmp_path: Path) -> None:
    order_by_page(server)
    work(server)
    end_run(server, results(tmp_path, slower(), run=900))
    work(server)

    [order] = orders(server)
    assert ([run["head_branch"] for run in server.hub.dispatched], order.state) == (["main"], "done")
    assert (order.result or {})["verdict"] == "regression"
    assert (server.hub.comments, server.kinds()) == ([], {"pairs-900": "pull_request"})


@pytest.mark.parametrize(
    ("changes", "installed", "why"),
    [
        (
            {"kind": "measure", "base_sha": None},
            True,
            "GitHub's runners compare two commits. For the history, ",
        ),
        ({}, False, "The GitHub App of this server is not installed for acme/model."),
    ],
    ids=["one commit", "not installed"],
)
def test_an_order_that_github_cannot_carry_out_fails(
    server: Server, changes: Json, installed: bool, why: str
) -> None:
    server.hub.installed = installed
    order_by_page(server, **changes)
    work(server)

    [order] = orders(server)
    assert (order.state, order.problem[: len(why)], server.hub.dispatched) == ("failed", why, [])


def test_a_run_of_another_name_or_file_is_not_taken_for_that_of_an_order(server: Server) -> None:
    order_by_page(server)
    title = format_run_title(orders(server)[0])
    others = [{"display_title": f"{title}0"}, {"display_title": title, "path": ".github/workflows/other.yml"}]
    server.hub.dispatched = [
        a_workflow_run(800 + number) | {"event": "workflow_dispatch"} | other
        for number, other in enumerate(others)
    ]
    work(server)

    assert (len(server.hub.dispatched), orders(server)[0].external_run) == (3, "902")


def test_the_workflow_names_its_run_as_the_server_looks_for_it() -> None:
    assert f"format('{ORDER_RUN_TITLE.format('{0}')}', inputs.order)" in MEASURE_WORKFLOW
