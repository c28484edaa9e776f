"""A report gets onto its pull request once, whatever happens on the way."""

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
    Dropped,
    FakeGitHub,
    Grant,
    Told,
    Unmade,
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


def report(comment: str = "2 regressions", told: CheckReport | None = None) -> PullReport:
    return PullReport("acme/model", 7, HEAD, "acme/model", comment, told or check())


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


def test_edits_what_is_there(client: GitHubClient, hub: FakeGitHub) -> None:
    deliver_report(client, US, report())

    delivery = deliver_report(client, US, report("unchanged", check("unchanged", conclusion="success")))

    assert bodies(hub) == [body("unchanged")]
    assert [(each_check["conclusion"], each_check["output"]["title"]) for each_check in hub.checks] == [
        ("success", "unchanged")
    ]
    assert delivery.written == ("perfci", "comment")


def test_a_check_goes_from_queued_to_its_end(client: GitHubClient, hub: FakeGitHub) -> None:
    for state, conclusion in (("queued", None), ("in_progress", None), ("completed", "failure")):
        deliver_report(client, US, report("measuring", check("measuring", state, conclusion)))

    assert [(each_check["status"], each_check["conclusion"]) for each_check in hub.checks] == [
        ("completed", "failure")
    ]


def test_a_check_that_ended_is_followed_by_a_new_one_and_that_one_counts(
    client: GitHubClient, hub: FakeGitHub
) -> None:
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


def test_a_comment_on_an_older_commit_says_so_once(client: GitHubClient, hub: FakeGitHub) -> None:
    deliver_report(client, US, report())

    before = len(hub.writes)

    for _ in range(2):
        mark_comment_outdated(
            client, US, "acme/model", 7, "acme/model", NEWER, lambda text: f"Outdated: {text[-13:]}"
        )

    assert bodies(hub) == [body("Outdated: 2 regressions")]
    assert len(hub.writes) == before + 1


def test_a_comment_on_the_head_stays_as_it_is(client: GitHubClient, hub: FakeGitHub) -> None:
    deliver_report(client, US, report())

    where = mark_comment_outdated(client, US, "acme/model", 7, "acme/model", HEAD, lambda text: "Outdated.")

    assert (where, bodies(hub)) == ("", [body("2 regressions")])


def test_keeps_silent_until_there_is_something_to_say(client: GitHubClient, hub: FakeGitHub) -> None:
    quiet = dataclasses.replace(report("unchanged"), may_create_comment=False)
    assert deliver_report(client, US, quiet).comment_url == ""
    assert hub.comments == []

    deliver_report(client, US, report("2 regressions"))
    deliver_report(client, US, quiet)

    assert bodies(hub) == [body("unchanged")]


def test_passes_over_comments_of_others_that_bear_the_mark(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.comments = [
        comment(1, f"{MARK}\nall is well", "mallory"),
        comment(2, f"<!-- other -->\n{MARK}", BOT.login),
        comment(3, f"{MARK}\nall is well", "perfci"),
    ]

    deliver_report(client, US, report())

    assert bodies(hub)[:3] == [f"{MARK}\nall is well", f"<!-- other -->\n{MARK}", f"{MARK}\nall is well"]
    assert bodies(hub)[3:] == [body("2 regressions")]


def test_passes_over_checks_of_another_app(client: GitHubClient, hub: FakeGitHub) -> None:
    deliver_report(client, US, report())
    hub.checks[0]["app"] = {"id": 15368}

    deliver_report(client, US, report())

    assert [each_check["app"]["id"] for each_check in hub.checks] == [15368, 7]


def test_of_two_comments_of_ours_the_first_stays(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.comments = [comment(number, f"{MARK}\nold") for number in (5, 6)]

    delivery = deliver_report(client, US, report())

    assert bodies(hub) == [body("2 regressions")]
    assert delivery.written == ("perfci", "comment", "second comment deleted")
    assert hub.comments[0]["id"] == 5


def test_finds_its_comment_behind_hundreds_of_others(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.comments = [comment(number, "hello", "ada") for number in range(250)] + [comment(900, f"{MARK}\nold")]

    deliver_report(client, US, report())

    assert bodies(hub)[250:] == [body("2 regressions")]


def test_writes_nothing_where_the_head_has_moved(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.pulls = [pull(head=NEWER)]

    with pytest.raises(ReportOutdated) as caught:
        deliver_report(client, US, report())

    assert str(caught.value) == (
        "acme/model#7 is at cccccccccccc by now and this report is about aaaaaaaaaaaa: nothing was "
        "written. The newer commit gets its own report."
    )
    assert hub.writes == []


@pytest.mark.parametrize("trouble", [Dropped, Unmade, Told(500), Told(502)])
def test_what_is_lost_at_any_request_the_next_run_completes(
    client: GitHubClient, hub: FakeGitHub, trouble: type[Dropped] | type[Unmade] | Told
) -> None:
    deliver_report(client, US, report())
    usual = len(hub.asked)
    for place in range(usual):
        hub.comments, hub.checks = [], []
        hub.troubles = [None] * place + [trouble] * 5

        with pytest.raises(PerfciError):
            deliver_report(client, US, report())
        hub.troubles = []
        deliver_report(client, US, report())

        assert bodies(hub) == [body("2 regressions")]
        assert [each_check["name"] for each_check in hub.checks] == ["perfci"]


def test_an_answer_that_got_lost_is_found_by_the_next_run(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.troubles = [None, None, Dropped]
    with pytest.raises(GitHubNoResponse):
        deliver_report(client, US, report())

    delivery = deliver_report(client, US, report())

    assert (len(hub.checks), delivery.written) == (1, ("comment",))


def test_without_permission_for_checks_a_status_says_it(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.tokens["t0ken"] = Grant("ada", {"statuses": "write", "pull_requests": "write"})
    us = CommentAuthor("ada")

    first, second = deliver_report(client, us, report()), deliver_report(client, us, report())

    assert [
        (status["state"], status["context"], status["description"], status["target_url"])
        for status in hub.statuses
    ] == [("success", "perfci", "2 regressions", "https://perf.example.com/acme:model")]
    assert (first.written, second.written) == (("perfci as a commit status", "comment"), ())


def test_a_token_that_may_read_checks_and_is_no_app_gets_a_status(
    client: GitHubClient, hub: FakeGitHub
) -> None:
    """What GitHub says to a person's token that has every permission."""
    hub.tokens["t0ken"] = Grant("ada", {"checks": "write", "statuses": "write", "pull_requests": "write"})

    deliver_report(client, CommentAuthor("ada"), report())

    assert [status["state"] for status in hub.statuses] == ["success"]


@pytest.mark.parametrize(
    ("state", "conclusion", "said"),
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
def test_a_status_has_a_word_for_every_check(
    client: GitHubClient, hub: FakeGitHub, state: CheckState, conclusion: CheckConclusion | None, said: str
) -> None:
    hub.tokens["t0ken"] = Grant("ada", {"statuses": "write", "pull_requests": "write"})

    deliver_report(client, CommentAuthor("ada"), report("x", check("t" * 200, state, conclusion)))

    assert [(status["state"], status["description"]) for status in hub.statuses] == [(said, "t" * 139 + "…")]


def test_a_check_that_broke_is_neutral_and_its_status_an_error(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.tokens["t0ken"] = Grant("ada", {"statuses": "write", "pull_requests": "write"})

    deliver_report(
        client, CommentAuthor("ada"), report("x", dataclasses.replace(check("Not run"), status="error"))
    )

    assert [status["state"] for status in hub.statuses] == ["error"]


def test_without_any_permission_it_names_both(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.tokens["t0ken"] = Grant("ada", {"pull_requests": "write"})

    with pytest.raises(GitHubError) as caught:
        deliver_report(client, CommentAuthor("ada"), report())

    assert "The token needs the permission checks: read." in str(caught.value)
    assert str(caught.value).endswith("The token needs the permission statuses: read.")
    assert hub.writes == []


def test_a_limit_is_no_missing_permission(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.troubles = [None, Told(403, {"Retry-After": "900"})]

    with pytest.raises(GitHubError, match="GitHub rate limit: perfci can list the checks"):
        deliver_report(client, US, report())

    assert hub.statuses == []


def test_takes_back_a_comment_that_it_would_not_know_again(client: GitHubClient, hub: FakeGitHub) -> None:
    with pytest.raises(PerfciError) as caught:
        deliver_report(client, CommentAuthor("github-actions[bot]"), report())

    assert str(caught.value) == (
        "Comments with this token appear as perfci[bot], and github-actions[bot] was expected: the "
        "next run would not find its own comment. Name perfci[bot] as the author."
    )
    assert hub.comments == []


@pytest.mark.parametrize("key", ["--> <img src=x>", "a--b", "naïve\n\u202e"])
def test_no_name_of_a_project_ends_the_mark_early(key: str) -> None:
    first = dataclasses.replace(report(), key=key).comment_body.splitlines()[0]

    assert first.startswith("<!-- perfci report ")
    assert first.isascii()
    assert first.count("--") == 2
    assert first.endswith(" -->")


def test_refuses_texts_that_github_would_not_take() -> None:
    room = 65_536 - len(body(""))
    assert len(report("c" * room).comment_body) == 65_536

    with pytest.raises(PerfciError, match="with its hidden mark, has 65,537 characters; GitHub takes 65,536"):
        report("c" * (room + 1))
    with pytest.raises(
        PerfciError, match="The summary of a check has 65,536 characters; GitHub takes 65,535"
    ):
        dataclasses.replace(check(), summary="s" * 65_536)


@pytest.mark.parametrize(("state", "conclusion"), [("completed", None), ("in_progress", "success")])
def test_a_check_ends_with_a_conclusion_and_never_before(
    state: CheckState, conclusion: CheckConclusion | None
) -> None:
    with pytest.raises(PerfciError, match="has a conclusion when it is completed, and only then"):
        check("x", state, conclusion)
