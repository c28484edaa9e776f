"""A report is delivered to its pull request once, whatever fails on the way."""

from __future__ import annotations

import dataclasses

import pytest

from perfci.github.client import GitHubClient
from perfci.github.deliver_report import deliver_report, mark_comment_outdated
from perfci.github.errors import GitHubError, GitHubNoResponse
from perfci.github.pull_report import (
    CheckConclusion,
    CheckReport,
    CheckState,
    CommentAuthor,
    PullReport,
    ReportOutdated,
)
from perfci.model import PerfciError
from tests.support.stateful_github import (
    BOT,
    HEAD,
    NEWER,
    CannedResponse,
    ConnectionFailed,
    FakeGitHub,
    Grant,
    ResponseLost,
    comment,
    pull,
)

US = CommentAuthor("perfci[bot]", 7)
MARK = "<!-- perfci report acme/model -->"


def check(
    title: str = "2 regressions",
    state: CheckState = "completed",
    conclusion: CheckConclusion | None = "neutral",
) -> CheckReport:
    return CheckReport(
        "perfci", "acme/model", state, title, "| table |", conclusion, "https://perf.example.com/acme:model"
    )


def report(comment: str = "2 regressions", check_report: CheckReport | None = None) -> PullReport:
    return PullReport("acme/model", 7, HEAD, "acme/model", comment, check_report or check())


def body(text: str, sha: str = HEAD) -> str:
    return f"{MARK}\n<!-- at {sha} -->\n{text}"


def bodies(hub: FakeGitHub) -> list[str]:
    return [each_comment["body"] for each_comment in hub.comments]


def test_writes_a_check_and_a_comment(client: GitHubClient, hub: FakeGitHub) -> None:
    delivery = deliver_report(client, US, report())

    [made] = hub.checks
    assert (made["name"], made["head_sha"], made["status"], made["conclusion"], made["output"]) == (
        "perfci",
        HEAD,
        "completed",
        "neutral",
        {"title": "2 regressions", "summary": "| table |"},
    )
    assert bodies(hub) == [body("2 regressions")]
    assert delivery.written == ("perfci", "comment")
    assert (delivery.comment_url, delivery.check_url) == (hub.comments[0]["html_url"], made["html_url"])


def test_the_second_time_it_writes_nothing(client: GitHubClient, hub: FakeGitHub) -> None:
    deliver_report(client, US, report())
    hub.comments[0]["body"] = hub.comments[0]["body"].replace("\n", "\r\n") + "\n"
    before = list(hub.writes)

    delivery = deliver_report(client, US, report())

    assert (hub.writes, delivery.written) == (before, ())
    assert delivery.comment_url == hub.comments[0]["html_url"]


def test_edits_an_existing_comment_and_check(client: GitHubClient, hub: FakeGitHub) -> None:
    deliver_report(client, US, report())

    delivery = deliver_report(client, US, report("unchanged", check("unchanged", conclusion="success")))

    assert bodies(hub) == [body("unchanged")]
    assert [(each_check["conclusion"], each_check["output"]["title"]) for each_check in hub.checks] == [
        ("success", "unchanged")
    ]
    assert delivery.written == ("perfci", "comment")


def test_updates_a_check_from_queued_to_completed(client: GitHubClient, hub: FakeGitHub) -> None:
    for state, conclusion in (("queued", None), ("in_progress", None), ("completed", "failure")):
        deliver_report(client, US, report("measuring", check("measuring", state, conclusion)))

    assert [(each_check["status"], each_check["conclusion"]) for each_check in hub.checks] == [
        ("completed", "failure")
    ]


def test_creates_a_new_check_after_a_completed_one(client: GitHubClient, hub: FakeGitHub) -> None:
    deliver_report(client, US, report())

    deliver_report(client, US, report("again", check("measuring again", "in_progress", None)))
    deliver_report(client, US, report("again", check("unchanged", conclusion="success")))

    assert [each_check["output"]["title"] for each_check in hub.checks] == ["2 regressions", "unchanged"]


def test_projects_have_a_check_and_a_comment_each(client: GitHubClient, hub: FakeGitHub) -> None:
    deliver_report(client, US, report())

    kernels = dataclasses.replace(check(), name="perfci/acme/kernels", external_id="acme/kernels")
    deliver_report(client, US, dataclasses.replace(report("of another project", kernels), key="acme/kernels"))

    assert [each_check["name"] for each_check in hub.checks] == ["perfci", "perfci/acme/kernels"]
    assert len(hub.comments) == 2


def test_marks_a_comment_on_an_older_commit_as_outdated_once(client: GitHubClient, hub: FakeGitHub) -> None:
    deliver_report(client, US, report())

    before = len(hub.writes)

    for _ in range(2):
        mark_comment_outdated(
            client, US, "acme/model", 7, "acme/model", NEWER, lambda text: f"Outdated: {text[-13:]}"
        )

    assert bodies(hub) == [body("Outdated: 2 regressions")]
    assert len(hub.writes) == before + 1


def test_does_not_mark_a_comment_on_the_head(client: GitHubClient, hub: FakeGitHub) -> None:
    deliver_report(client, US, report())

    where = mark_comment_outdated(client, US, "acme/model", 7, "acme/model", HEAD, lambda text: "Outdated.")

    assert (where, bodies(hub)) == ("", [body("2 regressions")])


def test_creates_no_comment_without_findings(client: GitHubClient, hub: FakeGitHub) -> None:
    quiet = dataclasses.replace(report("unchanged"), may_create_comment=False)
    assert deliver_report(client, US, quiet).comment_url == ""
    assert hub.comments == []

    deliver_report(client, US, report("2 regressions"))
    deliver_report(client, US, quiet)

    assert bodies(hub) == [body("unchanged")]


def test_ignores_comments_of_other_users_with_our_marker(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.comments = [
        comment(1, f"{MARK}\nall is well", "mallory"),
        comment(2, f"<!-- other -->\n{MARK}", BOT.login),
        comment(3, f"{MARK}\nall is well", "perfci"),
    ]

    deliver_report(client, US, report())

    assert bodies(hub)[:3] == [f"{MARK}\nall is well", f"<!-- other -->\n{MARK}", f"{MARK}\nall is well"]
    assert bodies(hub)[3:] == [body("2 regressions")]


def test_ignores_checks_of_another_app(client: GitHubClient, hub: FakeGitHub) -> None:
    deliver_report(client, US, report())
    hub.checks[0]["app"] = {"id": 15368}

    deliver_report(client, US, report())

    assert [each_check["app"]["id"] for each_check in hub.checks] == [15368, 7]


def test_deletes_duplicates_of_our_comment(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.comments = [comment(number, f"{MARK}\nold") for number in (5, 6)]

    delivery = deliver_report(client, US, report())

    assert bodies(hub) == [body("2 regressions")]
    assert delivery.written == ("perfci", "comment", "second comment deleted")
    assert hub.comments[0]["id"] == 5


def test_finds_its_comment_behind_hundreds_of_others(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.comments = [comment(number, "hello", "ada") for number in range(250)] + [comment(900, f"{MARK}\nold")]

    deliver_report(client, US, report())

    assert bodies(hub)[250:] == [body("2 regressions")]


def test_writes_nothing_if_the_head_has_moved(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.pulls = [pull(head=NEWER)]

    with pytest.raises(ReportOutdated) as caught:
        deliver_report(client, US, report())

    assert str(caught.value) == (
        "acme/model#7 is at cccccccccccc by now and this report is about aaaaaaaaaaaa: nothing was "
        "written. The newer commit gets its own report."
    )
    assert hub.writes == []


@pytest.mark.parametrize(
    "trouble", [ResponseLost, ConnectionFailed, CannedResponse(500), CannedResponse(502)]
)
def test_the_next_delivery_completes_a_failed_one(
    client: GitHubClient,
    hub: FakeGitHub,
    trouble: type[ResponseLost] | type[ConnectionFailed] | CannedResponse,
) -> None:
    deliver_report(client, US, report())
    usual = len(hub.received_requests)
    for place in range(usual):
        hub.comments, hub.checks = [], []
        hub.troubles = [None] * place + [trouble] * 5

        with pytest.raises(PerfciError):
            deliver_report(client, US, report())
        hub.troubles = []
        deliver_report(client, US, report())

        assert bodies(hub) == [body("2 regressions")]
        assert [each_check["name"] for each_check in hub.checks] == ["perfci"]


def test_the_next_delivery_finds_what_a_lost_response_wrote(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.troubles = [None, None, ResponseLost]
    with pytest.raises(GitHubNoResponse):
        deliver_report(client, US, report())

    delivery = deliver_report(client, US, report())

    assert (len(hub.checks), delivery.written) == (1, ("comment",))


def test_sets_a_commit_status_without_permission_for_checks(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.tokens["t0ken"] = Grant("ada", {"statuses": "write", "pull_requests": "write"})
    us = CommentAuthor("ada")

    first, second = deliver_report(client, us, report()), deliver_report(client, us, report())

    assert [
        (status["state"], status["context"], status["description"], status["target_url"])
        for status in hub.statuses
    ] == [("success", "perfci", "2 regressions", "https://perf.example.com/acme:model")]
    assert (first.written, second.written) == (("perfci as a commit status", "comment"), ())


def test_sets_a_commit_status_with_a_token_of_no_app(client: GitHubClient, hub: FakeGitHub) -> None:
    """What GitHub says to a person's token that has every permission."""
    hub.tokens["t0ken"] = Grant("ada", {"checks": "write", "statuses": "write", "pull_requests": "write"})

    deliver_report(client, CommentAuthor("ada"), report())

    assert [status["state"] for status in hub.statuses] == ["success"]


@pytest.mark.parametrize(
    ("state", "conclusion", "status_state"),
    [
        ("queued", None, "pending"),
        ("in_progress", None, "pending"),
        ("completed", "success", "success"),
        ("completed", "neutral", "success"),
        ("completed", "skipped", "success"),
        ("completed", "failure", "failure"),
        ("completed", "timed_out", "error"),
        ("completed", "cancelled", "error"),
    ],
)
def test_every_check_conclusion_has_a_status_state(
    client: GitHubClient,
    hub: FakeGitHub,
    state: CheckState,
    conclusion: CheckConclusion | None,
    status_state: str,
) -> None:
    hub.tokens["t0ken"] = Grant("ada", {"statuses": "write", "pull_requests": "write"})

    deliver_report(client, CommentAuthor("ada"), report("x", check("t" * 200, state, conclusion)))

    assert [(status["state"], status["description"]) for status in hub.statuses] == [
        (status_state, "t" * 139 + "…")
    ]


def test_a_broken_measurement_is_a_neutral_check_and_an_error_status(
    client: GitHubClient, hub: FakeGitHub
) -> None:
    hub.tokens["t0ken"] = Grant("ada", {"statuses": "write", "pull_requests": "write"})

    deliver_report(
        client, CommentAuthor("ada"), report("x", dataclasses.replace(check("Not run"), status="error"))
    )

    assert [status["state"] for status in hub.statuses] == ["error"]


def test_names_both_permissions_if_both_are_missing(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.tokens["t0ken"] = Grant("ada", {"pull_requests": "write"})

    with pytest.raises(GitHubError) as caught:
        deliver_report(client, CommentAuthor("ada"), report())

    assert "The token needs the permission checks: read." in str(caught.value)
    assert str(caught.value).endswith("The token needs the permission statuses: read.")
    assert hub.writes == []


def test_a_rate_limit_is_no_missing_permission(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.troubles = [None, CannedResponse(403, {"Retry-After": "900"})]

    with pytest.raises(GitHubError, match="GitHub rate limit: perfci can list the checks"):
        deliver_report(client, US, report())

    assert hub.statuses == []


def test_deletes_a_comment_that_appears_under_another_author(client: GitHubClient, hub: FakeGitHub) -> None:
    with pytest.raises(PerfciError) as caught:
        deliver_report(client, CommentAuthor("github-actions[bot]"), report())

    assert str(caught.value) == (
        "Comments with this token appear as perfci[bot], and github-actions[bot] was expected: the "
        "next run would not find its own comment. Name perfci[bot] as the author."
    )
    assert hub.comments == []


@pytest.mark.parametrize("key", ["--> <img src=x>", "a--b", "naïve\n\u202e"])
def test_no_project_name_closes_the_marker_early(key: str) -> None:
    first = dataclasses.replace(report(), key=key).comment_body.splitlines()[0]

    assert first.startswith("<!-- perfci report ")
    assert first.isascii()
    assert first.count("--") == 2
    assert first.endswith(" -->")


def test_rejects_texts_above_githubs_limits() -> None:
    room = 65_536 - len(body(""))
    assert len(report("c" * room).comment_body) == 65_536

    with pytest.raises(PerfciError, match="with its hidden mark, has 65,537 characters; GitHub takes 65,536"):
        report("c" * (room + 1))
    with pytest.raises(
        PerfciError, match="The summary of a check has 65,536 characters; GitHub takes 65,535"
    ):
        dataclasses.replace(check(), summary="s" * 65_536)


@pytest.mark.parametrize(("state", "conclusion"), [("completed", None), ("in_progress", "success")])
def test_a_check_has_a_conclusion_only_when_completed(
    state: CheckState, conclusion: CheckConclusion | None
) -> None:
    with pytest.raises(PerfciError, match="has a conclusion when it is completed, and only then"):
        check("x", state, conclusion)
