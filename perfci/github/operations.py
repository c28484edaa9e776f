"""Every request perfci makes of GitHub, and the permission that each one needs; there are no others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from perfci.model import PerfciError

REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
SHA = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class Operation:
    """``path`` as GitHub's description of its API spells it; ``needs`` holds permissions of which one is enough."""

    method: str
    path: str
    aim: str
    needs: tuple[str, ...] = ()
    repeatable: bool = True

    def url(self, where: Mapping[str, str | int]) -> str:
        return self.path.lstrip("/").format_map({name: quote(str(value), safe="") for name, value in where.items()})

    def aim_at(self, where: Mapping[str, str | int]) -> str:
        """What was to be done, in words that end the sentence "GitHub refused to ..."."""
        return self.aim.format_map(where)


def place(repository: str) -> dict[str, str | int]:
    """Owner and name of a repository as the paths want them."""
    if not REPOSITORY.fullmatch(repository):
        raise PerfciError(f"{repository!r} is no repository; expected for example acme/model.")
    owner, _, name = repository.partition("/")
    return {"owner": owner, "repo": name}


def full(sha: str) -> str:
    """Refs have slashes, move, and look like options; a full sha names one commit for ever."""
    if not SHA.fullmatch(sha):
        raise PerfciError(f"{sha!r} is no commit's full sha; expected 40 (or 64) characters of 0-9 and a-f.")
    return sha


HERE = "/repos/{owner}/{repo}"
READ_TALK = ("pull_requests: read", "issues: read")
WRITE_TALK = ("pull_requests: write", "issues: write")

GET_REPOSITORY = Operation("GET", HERE, "read {owner}/{repo}", ("metadata: read",))
GET_PERMISSION = Operation(
    "GET", HERE + "/collaborators/{username}/permission", "read what {username} may do in {owner}/{repo}",
    ("metadata: read",),
)  # fmt: skip

GET_PULL = Operation(
    "GET", HERE + "/pulls/{pull_number}", "read pull request {owner}/{repo}#{pull_number}", ("pull_requests: read",)
)
LIST_PULLS = Operation("GET", HERE + "/pulls", "list the pull requests of {owner}/{repo}", ("pull_requests: read",))
LIST_PULLS_OF_COMMIT = Operation(
    "GET", HERE + "/commits/{commit_sha}/pulls", "find the pull requests that brought {commit_sha} to {owner}/{repo}",
    ("pull_requests: read",),
)  # fmt: skip
LIST_COMMENTS = Operation(
    "GET", HERE + "/issues/{issue_number}/comments", "list the comments on {owner}/{repo}#{issue_number}", READ_TALK
)
LIST_TALK = Operation("GET", HERE + "/issues/comments", "list the newest comments in {owner}/{repo}", READ_TALK)
CREATE_COMMENT = Operation(
    "POST", HERE + "/issues/{issue_number}/comments", "comment on {owner}/{repo}#{issue_number}", WRITE_TALK,
    repeatable=False,
)  # fmt: skip
UPDATE_COMMENT = Operation(
    "PATCH", HERE + "/issues/comments/{comment_id}", "edit comment {comment_id} of {owner}/{repo}", WRITE_TALK
)
DELETE_COMMENT = Operation(
    "DELETE", HERE + "/issues/comments/{comment_id}", "delete comment {comment_id} of {owner}/{repo}", WRITE_TALK
)
LIST_ISSUES = Operation("GET", HERE + "/issues", "list the issues of {owner}/{repo}", ("issues: read",))
CREATE_ISSUE = Operation("POST", HERE + "/issues", "open an issue in {owner}/{repo}", ("issues: write",), False)

LIST_CHECKS = Operation(
    "GET", HERE + "/commits/{ref}/check-runs", "list the checks of {ref} in {owner}/{repo}", ("checks: read",)
)
CREATE_CHECK = Operation("POST", HERE + "/check-runs", "create a check in {owner}/{repo}", ("checks: write",), False)
UPDATE_CHECK = Operation(
    "PATCH", HERE + "/check-runs/{check_run_id}", "update check {check_run_id} of {owner}/{repo}", ("checks: write",)
)
LIST_STATUSES = Operation(
    "GET", HERE + "/commits/{ref}/statuses", "list the statuses of {ref} in {owner}/{repo}", ("statuses: read",)
)
CREATE_STATUS = Operation(
    "POST", HERE + "/statuses/{sha}", "set the status of {sha} in {owner}/{repo}", ("statuses: write",), False
)

GET_WORKFLOW_RUN = Operation(
    "GET", HERE + "/actions/runs/{run_id}", "read workflow run {run_id} of {owner}/{repo}", ("actions: read",)
)
LIST_WORKFLOW_RUNS = Operation(
    "GET", HERE + "/actions/runs", "list the workflow runs of {owner}/{repo}", ("actions: read",)
)
LIST_ARTIFACTS = Operation(
    "GET", HERE + "/actions/runs/{run_id}/artifacts", "list the artifacts of workflow run {run_id} of {owner}/{repo}",
    ("actions: read",),
)  # fmt: skip
LIST_REPOSITORY_ARTIFACTS = Operation(
    "GET", HERE + "/actions/artifacts", "list the artifacts of {owner}/{repo}", ("actions: read",)
)
DOWNLOAD_ARTIFACT = Operation(
    "GET", HERE + "/actions/artifacts/{artifact_id}/{archive_format}",
    "download artifact {artifact_id} of {owner}/{repo}", ("actions: read",),
)  # fmt: skip
GET_APP = Operation("GET", "/app", "read which App this is")
GET_INSTALLATION = Operation("GET", HERE + "/installation", "find who installed this App for {owner}/{repo}")
MINT_TOKEN = Operation(
    "POST", "/app/installations/{installation_id}/access_tokens", "make a token for installation {installation_id}"
)
"""May be asked for twice: a token that nobody got ends by itself."""

ALL = tuple(value for value in list(globals().values()) if isinstance(value, Operation))
