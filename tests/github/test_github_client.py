"""Requests of the GitHub client, and how it handles responses and errors."""

from __future__ import annotations

import pytest
from httpx import Response

from perfci.github.client import GitHubClient, open_github_client
from perfci.github.errors import GitHubError, GitHubNoResponse, GitHubUnreachable
from perfci.github.requester import DownloadLimits, GitHubRetryPolicy
from perfci.model import PerfciError
from tests.support.stateful_github import (
    STORE,
    CannedResponse,
    ConnectionFailed,
    FakeGitHub,
    Grant,
    ResponseLost,
    comment,
    pull,
)

ENOUGH = DownloadLimits(max_bytes=10_000)


def test_reads_a_repository_by_name(client: GitHubClient) -> None:
    repository = client.get_repository("acme/model")

    assert (repository.id, repository.owner.login, repository.default_branch) == (1, "acme", "main")


@pytest.mark.parametrize(
    "name", ["acme", "acme/..", "acme/model/x", "acme/mo del", "../model", "-acme/model"]
)
def test_rejects_invalid_repository_names(client: GitHubClient, hub: FakeGitHub, name: str) -> None:
    with pytest.raises(PerfciError, match="is no repository; expected for example acme/model"):
        client.get_repository(name)

    assert hub.received_requests == []


def test_reports_write_permission(client: GitHubClient) -> None:
    may = {
        login: client.get_user_permission("acme/model", login).may_write for login in ("ada", "bob", "eve")
    }

    assert may == {"ada": True, "bob": True, "eve": False}


def test_accepts_full_shas_only(client: GitHubClient) -> None:
    with pytest.raises(PerfciError, match="'feature/x' is no commit's full sha"):
        list(client.list_commit_statuses("acme/model", "feature/x"))


def test_reads_all_pages_of_a_list(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.comments = [comment(number, "hello") for number in range(350)]

    comments = list(client.list_comments("acme/model", 7))

    assert [len(comments), comments[-1].id, len(hub.received_requests)] == [350, 349, 4]


def test_reads_no_more_pages_than_github_can_fill(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.comments = [comment(number, "hello") for number in range(3001)]

    with pytest.raises(
        PerfciError, match="GitHub has more than 3000 entries where perfci was to list the comments"
    ):
        list(client.list_comments("acme/model", 7))

    assert len(hub.received_requests) == 30


def test_follows_no_page_to_another_host(
    hub: FakeGitHub, client: GitHubClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = {"Link": '<https://evil.example.net/repos/acme/model/issues/7/comments?page=2>; rel="next"'}
    monkeypatch.setattr(hub, "handle_request", lambda request: Response(200, headers=link, json=[]))

    with pytest.raises(
        PerfciError, match=r"links its next page at evil\.example\.net, where the token must not go"
    ):
        list(client.list_comments("acme/model", 7))


def test_creates_an_issue_and_lists_it(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.tokens["t0ken"] = Grant("ada", {"issues": "write"})

    made = client.create_issue("acme/model", "slower", "by 9 %", ["perfci"])

    assert client.list_newest_labeled_issues("acme/model", "perfci") == (made,)
    assert made.html_url == "https://github.com/acme/model/issues/1"


def test_downloads_an_artifact_without_showing_the_token_to_its_host(
    client: GitHubClient, hub: FakeGitHub
) -> None:
    hub.artifact = bytes(range(256)) * 20
    [artifact] = client.list_workflow_run_artifacts("acme/model", 4, "perfci-run")

    content = client.download_artifact("acme/model", artifact.id, ENOUGH)

    assert content == hub.artifact
    assert hub.received_requests[-1].url.host == STORE
    assert "Authorization" not in hub.received_requests[-1].headers


def test_rejects_an_artifact_above_the_size_limit(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.artifact = bytes(10_001)

    with pytest.raises(
        PerfciError, match="artifact 5 is larger than 10,000 bytes, the most that perfci takes"
    ):
        client.download_artifact("acme/model", 5, ENOUGH)


def test_gives_up_on_a_slow_artifact_download(hub: FakeGitHub) -> None:
    hub.artifact = bytes(9_000)
    times = iter(range(0, 10_000, 50))
    impatient = open_github_client(
        "t0ken",
        hub.description.base_url,
        retry_policy=GitHubRetryPolicy(now=lambda: float(next(times))),
        transport=hub,
    )

    with pytest.raises(PerfciError, match="artifact 5 did not come within 120 s; perfci gave up on it"):
        impatient.download_artifact("acme/model", 5, ENOUGH)


def test_hides_the_download_url_of_an_artifact(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.troubles = [None, CannedResponse(403)] * 5

    with pytest.raises(GitHubError) as caught:
        client.download_artifact("acme/model", 5, ENOUGH)

    assert str(caught.value) == f"{STORE} did not hand over artifact 5: 403. Try again later."


@pytest.mark.parametrize("place", ["http://files.example.net/5", "file:///etc/passwd", "", "/signed/5"])
def test_downloads_from_https_only(
    hub: FakeGitHub, client: GitHubClient, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(hub, "handle_request", lambda request: Response(302, headers={"Location": place}))

    with pytest.raises(PerfciError, match="GitHub named no https address to fetch artifact 5 from"):
        client.download_artifact("acme/model", 5, ENOUGH)


def test_names_the_permission_that_is_missing(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.tokens["t0ken"] = Grant("perfci[bot]", {}, app=7)

    with pytest.raises(GitHubError) as caught:
        client.get_pull("acme/model", 7)

    assert str(caught.value) == (
        "GitHub refused to read pull request acme/model#7: 403 Resource not accessible by integration. "
        "The token needs the permission pull_requests: read."
    )


def test_names_the_permission_that_github_requires(client: GitHubClient, hub: FakeGitHub) -> None:
    wanted = {"X-Accepted-GitHub-Permissions": "issues=write; pull_requests=write,contents=read"}
    hub.troubles = [CannedResponse(403, wanted, "Resource not accessible by personal access token")]

    with pytest.raises(GitHubError) as caught:
        client.create_comment("acme/model", 7, "hello")

    assert str(caught.value).endswith(
        "The token needs the permission issues: write or pull_requests: write and contents: read."
    )


@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [
        (
            CannedResponse(401, message="Bad credentials"),
            "GitHub does not take the token that was to read acme/model (401 Bad credentials): it "
            "is wrong, has ended, or was revoked. Give a new one.",
        ),
        (
            CannedResponse(404, message="Not Found"),
            "GitHub has nothing there to read acme/model (404 Not Found): it does not exist, or "
            "the token may not see it. The token needs the permission metadata: read.",
        ),
        (
            CannedResponse(301, {"Location": "https://api.github.com/repositories/1"}, "Moved Permanently"),
            "GitHub moved it to another address, so perfci did not read acme/model: use its current name.",
        ),
        (
            CannedResponse(422, message="Validation\x1b[31m Failed"),
            "GitHub refused to read acme/model: 422 Validation [31m Failed.",
        ),
    ],
)
def test_an_error_names_the_request_the_response_and_the_remedy(
    client: GitHubClient, hub: FakeGitHub, trouble: CannedResponse, sentence: str
) -> None:
    hub.troubles = [trouble]

    with pytest.raises(GitHubError) as caught:
        client.get_repository("acme/model")

    assert str(caught.value) == sentence
    assert len(hub.received_requests) == 1


def test_says_when_the_address_is_not_that_of_the_api(
    hub: FakeGitHub, client: GitHubClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "handle_request", lambda request: Response(200, text="<html>"))

    with pytest.raises(PerfciError) as caught:
        client.get_repository("acme/model")

    assert str(caught.value) == (
        f"{hub.description.base_url} was to read acme/model and answered something else than GitHub does "
        "(the whole: Invalid JSON: expected value at line 1 column 1). Is it the address of the API: "
        "https://HOST/api/v3 of an Enterprise Server?"
    )


def test_retries_after_server_errors(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.troubles = [
        CannedResponse(502),
        CannedResponse(503, {"Retry-After": "7"}),
        ResponseLost,
        ConnectionFailed,
    ]

    assert client.get_repository("acme/model").id == 1

    assert hub.slept == [1.0, 7.0, 4.0, 8.0]


def test_gives_up_on_a_server_that_stays_broken(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.troubles = [CannedResponse(502)] * 9

    with pytest.raises(GitHubError) as caught:
        client.get_repository("acme/model")

    assert str(caught.value) == (
        "GitHub could not read acme/model: 502 Bad Gateway. Try again later; www.githubstatus.com "
        "says how GitHub is."
    )
    assert len(hub.received_requests) == 5


def test_does_not_repeat_a_comment_whose_response_was_lost(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.troubles = [ResponseLost]

    with pytest.raises(GitHubNoResponse, match="It may be done or not; asking again finds out"):
        client.create_comment("acme/model", 7, "hello")

    assert [each_comment["body"] for each_comment in hub.comments] == ["hello"]


def test_retries_a_write_that_never_connected(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.troubles = [ConnectionFailed, ConnectionFailed]

    client.create_comment("acme/model", 7, "hello")

    assert ([each_comment["body"] for each_comment in hub.comments], hub.slept) == (["hello"], [1.0, 2.0])


def test_reports_that_nothing_was_done_if_the_host_is_unreachable(
    client: GitHubClient, hub: FakeGitHub
) -> None:
    hub.troubles = [ConnectionFailed] * 9
    host = hub.description.base_url.split("/")[2]

    with pytest.raises(GitHubUnreachable) as caught:
        client.create_comment("acme/model", 7, "hello")

    assert str(caught.value) == (
        f"{host} could not be reached to comment on acme/model#7: connection refused. Nothing was done there."
    )


def test_retries_an_edit_after_any_failure(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.comments = [comment(5, "old")]
    hub.troubles = [ResponseLost, CannedResponse(500)]

    client.update_comment("acme/model", 5, "new")

    assert hub.comments[0]["body"] == "new"


LIMITS = [
    pytest.param(CannedResponse(429, {"Retry-After": "30"}), 30.0, id="retry-after"),
    pytest.param(CannedResponse(403, {"Retry-After": "30"}, "secondary"), 30.0, id="secondary limit"),
    pytest.param(
        CannedResponse(403, {}, "You have exceeded a secondary rate limit."),
        60.0,
        id="secondary limit without a time",
    ),
    pytest.param(
        CannedResponse(403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1790000090"}),
        90.0,
        id="reset",
    ),
    pytest.param(
        CannedResponse(429, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1789999999"}),
        1.0,
        id="reset before",
    ),
    pytest.param(CannedResponse(429, {"Retry-After": "soon"}), 60.0, id="no number"),
]


@pytest.mark.parametrize(("trouble", "waits_s"), LIMITS)
def test_waits_for_retry_after_before_repeating_a_write(
    client: GitHubClient, hub: FakeGitHub, trouble: CannedResponse, waits_s: float
) -> None:
    hub.troubles = [trouble]

    client.create_comment("acme/model", 7, "hello")

    assert (hub.slept, len(hub.comments)) == ([waits_s], 1)


def test_stops_waiting_at_its_limit_and_reports_when_to_retry(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.troubles = [
        CannedResponse(
            403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1790003600"}, "API rate limit"
        )
    ]

    with pytest.raises(GitHubError) as caught:
        client.get_repository("acme/model")

    assert str(caught.value) == (
        "GitHub rate limit: perfci can read acme/model after 2026-09-21 15:13:20 UTC: 403 API rate "
        "limit. Try again then."
    )
    assert (hub.slept, caught.value.retry_after_s, caught.value.is_transient) == ([], 3600.0, True)


def test_a_missing_permission_is_no_rate_limit(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.troubles = [
        CannedResponse(403, {"X-RateLimit-Remaining": "4999"}, "Resource not accessible by integration")
    ]

    with pytest.raises(GitHubError):
        client.get_repository("acme/model")

    assert hub.slept == []


def test_lists_open_pull_requests_of_a_branch(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.pulls = [pull(7), pull(8, branch="other"), pull(9) | {"state": "closed"}, pull(10, repository=2)]

    assert [each_pull.number for each_pull in client.list_open_pulls("acme/model", "acme", "faster")] == [7]


@pytest.mark.parametrize("token", ["", "ghp_s3cret\n", "ghp_s3cret x", "ghp_s3crét", "ghp_s3cret\x00"])
def test_rejects_an_invalid_token_without_showing_it(hub: FakeGitHub, token: str) -> None:
    client = open_github_client(token, hub.description.base_url, transport=hub)

    with pytest.raises(PerfciError, match="is empty or holds a character that no token has") as caught:
        client.get_repository("acme/model")

    assert "s3cr" not in str(caught.value)
    assert hub.received_requests == []
