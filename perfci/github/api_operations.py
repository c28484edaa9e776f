"""All operations of the GitHub API that perfci uses, each with the permission it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from perfci.model import PerfciError

REPOSITORY_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
SHA_PATTERN = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class GitHubOperation:
    """``path`` as GitHub's description of its API spells it; ``permissions`` are those of which one is
    enough.
    """

    method: str
    path: str
    description: str
    permissions: tuple[str, ...] = ()
    repeatable: bool = True

    def build_url(self, path_values: Mapping[str, str | int]) -> str:
        return self.path.lstrip("/").format_map(
            {name: quote(str(value), safe="") for name, value in path_values.items()}
        )

    def describe(self, path_values: Mapping[str, str | int]) -> str:
        """The operation as words that end the sentence "GitHub refused to ..."."""
        return self.description.format_map(path_values)


def repository_path_parameters(repository: str) -> dict[str, str | int]:
    """The path parameters of a repository: its owner and its name."""
    if not REPOSITORY_PATTERN.fullmatch(repository):
        raise PerfciError(f"{repository!r} is no repository; expected for example acme/model.")
    owner, _, name = repository.partition("/")
    return {"owner": owner, "repo": name}


def require_full_sha(sha: str) -> str:
    """Return a full sha, or raise: refs have slashes, move, and can look like options."""
    if not SHA_PATTERN.fullmatch(sha):
        raise PerfciError(f"{sha!r} is no commit's full sha; expected 40 (or 64) characters of 0-9 and a-f.")
    return sha


REPOSITORY_PATH = "/repos/{owner}/{repo}"
READ_COMMENTS = ("pull_requests: read", "issues: read")
WRITE_COMMENTS = ("pull_requests: write", "issues: write")

GET_REPOSITORY = GitHubOperation("GET", REPOSITORY_PATH, "read {owner}/{repo}", ("metadata: read",))
GET_PERMISSION = GitHubOperation(
    "GET",
    REPOSITORY_PATH + "/collaborators/{username}/permission",
    "read what {username} may do in {owner}/{repo}",
    ("metadata: read",),
)

GET_PULL = GitHubOperation(
    "GET",
    REPOSITORY_PATH + "/pulls/{pull_number}",
    "read pull request {owner}/{repo}#{pull_number}",
    ("pull_requests: read",),
)
LIST_PULLS = GitHubOperation(
    "GET", REPOSITORY_PATH + "/pulls", "list the pull requests of {owner}/{repo}", ("pull_requests: read",)
)
LIST_PULLS_OF_COMMIT = GitHubOperation(
    "GET",
    REPOSITORY_PATH + "/commits/{commit_sha}/pulls",
    "find the pull requests that brought {commit_sha} to {owner}/{repo}",
    ("pull_requests: read",),
)
LIST_COMMENTS = GitHubOperation(
    "GET",
    REPOSITORY_PATH + "/issues/{issue_number}/comments",
    "list the comments on {owner}/{repo}#{issue_number}",
    READ_COMMENTS,
)
LIST_REPOSITORY_COMMENTS = GitHubOperation(
    "GET", REPOSITORY_PATH + "/issues/comments", "list the newest comments in {owner}/{repo}", READ_COMMENTS
)
GET_COMMENT = GitHubOperation(
    "GET",
    REPOSITORY_PATH + "/issues/comments/{comment_id}",
    "read comment {comment_id} of {owner}/{repo}",
    READ_COMMENTS,
)
CREATE_REACTION = GitHubOperation(
    "POST",
    REPOSITORY_PATH + "/issues/comments/{comment_id}/reactions",
    "react to comment {comment_id} of {owner}/{repo}",
    WRITE_COMMENTS,
)
"""May be asked for twice: GitHub keeps one reaction of a kind."""
LIST_ISSUE_EVENTS = GitHubOperation(
    "GET",
    REPOSITORY_PATH + "/issues/{issue_number}/events",
    "list what happened to {owner}/{repo}#{issue_number}",
    READ_COMMENTS,
)
CREATE_COMMENT = GitHubOperation(
    "POST",
    REPOSITORY_PATH + "/issues/{issue_number}/comments",
    "comment on {owner}/{repo}#{issue_number}",
    WRITE_COMMENTS,
    repeatable=False,
)
UPDATE_COMMENT = GitHubOperation(
    "PATCH",
    REPOSITORY_PATH + "/issues/comments/{comment_id}",
    "edit comment {comment_id} of {owner}/{repo}",
    WRITE_COMMENTS,
)
DELETE_COMMENT = GitHubOperation(
    "DELETE",
    REPOSITORY_PATH + "/issues/comments/{comment_id}",
    "delete comment {comment_id} of {owner}/{repo}",
    WRITE_COMMENTS,
)
LIST_ISSUES = GitHubOperation(
    "GET", REPOSITORY_PATH + "/issues", "list the issues of {owner}/{repo}", ("issues: read",)
)
CREATE_ISSUE = GitHubOperation(
    "POST", REPOSITORY_PATH + "/issues", "open an issue in {owner}/{repo}", ("issues: write",), False
)

LIST_CHECKS = GitHubOperation(
    "GET",
    REPOSITORY_PATH + "/commits/{ref}/check-runs",
    "list the checks of {ref} in {owner}/{repo}",
    ("checks: read",),
)
CREATE_CHECK = GitHubOperation(
    "POST", REPOSITORY_PATH + "/check-runs", "create a check in {owner}/{repo}", ("checks: write",), False
)
UPDATE_CHECK = GitHubOperation(
    "PATCH",
    REPOSITORY_PATH + "/check-runs/{check_run_id}",
    "update check {check_run_id} of {owner}/{repo}",
    ("checks: write",),
)
LIST_STATUSES = GitHubOperation(
    "GET",
    REPOSITORY_PATH + "/commits/{ref}/statuses",
    "list the statuses of {ref} in {owner}/{repo}",
    ("statuses: read",),
)
CREATE_STATUS = GitHubOperation(
    "POST",
    REPOSITORY_PATH + "/statuses/{sha}",
    "set the status of {sha} in {owner}/{repo}",
    ("statuses: write",),
    False,
)

GET_WORKFLOW_RUN = GitHubOperation(
    "GET",
    REPOSITORY_PATH + "/actions/runs/{run_id}",
    "read workflow run {run_id} of {owner}/{repo}",
    ("actions: read",),
)
LIST_WORKFLOW_RUNS = GitHubOperation(
    "GET", REPOSITORY_PATH + "/actions/runs", "list the workflow runs of {owner}/{repo}", ("actions: read",)
)
LIST_RUNS_OF_WORKFLOW = GitHubOperation(
    "GET",
    REPOSITORY_PATH + "/actions/workflows/{workflow_id}/runs",
    "list the runs of {workflow_id} in {owner}/{repo}",
    ("actions: read",),
)
DISPATCH_WORKFLOW = GitHubOperation(
    "POST",
    REPOSITORY_PATH + "/actions/workflows/{workflow_id}/dispatches",
    "start {workflow_id} of {owner}/{repo}",
    ("actions: write",),
    repeatable=False,
)
CANCEL_WORKFLOW_RUN = GitHubOperation(
    "POST",
    REPOSITORY_PATH + "/actions/runs/{run_id}/cancel",
    "cancel workflow run {run_id} of {owner}/{repo}",
    ("actions: write",),
)
COMPARE_COMMITS = GitHubOperation(
    "GET",
    REPOSITORY_PATH + "/compare/{basehead}",
    "find the merge base of {basehead} in {owner}/{repo}",
    ("contents: read",),
)
LIST_ARTIFACTS = GitHubOperation(
    "GET",
    REPOSITORY_PATH + "/actions/runs/{run_id}/artifacts",
    "list the artifacts of workflow run {run_id} of {owner}/{repo}",
    ("actions: read",),
)
LIST_REPOSITORY_ARTIFACTS = GitHubOperation(
    "GET", REPOSITORY_PATH + "/actions/artifacts", "list the artifacts of {owner}/{repo}", ("actions: read",)
)
DOWNLOAD_ARTIFACT = GitHubOperation(
    "GET",
    REPOSITORY_PATH + "/actions/artifacts/{artifact_id}/{archive_format}",
    "download artifact {artifact_id} of {owner}/{repo}",
    ("actions: read",),
)
GET_APP = GitHubOperation("GET", "/app", "read which App this is")
GET_INSTALLATION = GitHubOperation(
    "GET", REPOSITORY_PATH + "/installation", "find who installed this App for {owner}/{repo}"
)
CREATE_INSTALLATION_TOKEN = GitHubOperation(
    "POST",
    "/app/installations/{installation_id}/access_tokens",
    "make a token for installation {installation_id}",
)
"""May be asked for twice: a token that nobody got ends by itself."""

ALL_OPERATIONS = tuple(value for value in list(globals().values()) if isinstance(value, GitHubOperation))
