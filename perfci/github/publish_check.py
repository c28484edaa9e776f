"""A check on a commit, found again by its id; or a commit status, where the token may not write checks."""

from __future__ import annotations

from typing import Any

from perfci.github.client import GitHubClient
from perfci.github.errors import GitHubError
from perfci.github.pull_report import MAX_STATUS_LENGTH, CheckReport, CommentAuthor
from perfci.github.shapes import CheckRun, CommitStatus

STATE_OF_CONCLUSION = {"success": "success", "neutral": "success", "skipped": "success", "failure": "failure"}
"""A status knows neither neutral nor timed out: advice passes with its text, what broke is an error."""


def publish_check(
    client: GitHubClient, author: CommentAuthor, repository: str, sha: str, check: CheckReport
) -> tuple[str, list[str]]:
    """Where the check is, and what had to be written for it."""
    try:
        return _publish_check_run(client, author, repository, sha, check)
    except GitHubError as error:
        if not error.lacks_permission:
            raise
        refused = error
    try:
        return _publish_status(client, repository, sha, check)
    except GitHubError as error:
        if not error.lacks_permission:
            raise
        raise GitHubError(f"{refused} Without it a commit status would do, but: {error}", 403) from None


def _publish_check_run(
    client: GitHubClient, author: CommentAuthor, repository: str, sha: str, check: CheckReport
) -> tuple[str, list[str]]:
    existing = _find_newest_check(client, author, repository, sha, check)
    if existing is not None and _is_same_check(existing, check):
        return existing.html_url or "", []
    if existing is None or (existing.status == "completed" and check.state != "completed"):
        # A check that ended does not begin again: another one of its name takes its place.
        made = client.create_check(repository, {"head_sha": sha} | _check_run_body(check))
    else:
        made = client.update_check(repository, existing.id, _check_run_body(check))
    return made.html_url or "", [check.name]


def _find_newest_check(
    client: GitHubClient, author: CommentAuthor, repository: str, sha: str, check: CheckReport
) -> CheckRun | None:
    """Ids of checks grow; another App may use our names and ids, and its checks are not ours to change."""
    ours = [
        candidate
        for candidate in client.list_checks(repository, sha, check.name)
        if candidate.name == check.name
        and candidate.external_id == check.external_id
        and candidate.head_sha == sha
        and (author.app_id is None or (candidate.app is not None and candidate.app.id == author.app_id))
    ]
    return max(ours, key=lambda candidate: candidate.id, default=None)


def _check_run_body(check: CheckReport) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "name": check.name,
        "external_id": check.external_id,
        "status": check.state,
        "output": {"title": check.title, "summary": check.summary},
    }
    if check.conclusion is not None:
        fields["conclusion"] = check.conclusion
    if check.details_url:
        fields["details_url"] = check.details_url
    return fields


def _is_same_check(check_run: CheckRun, check: CheckReport) -> bool:
    return (check_run.status, check_run.conclusion, check_run.output.title, check_run.output.summary) == (
        check.state,
        check.conclusion,
        check.title,
        check.summary,
    ) and check.details_url in ("", check_run.details_url)


def _publish_status(
    client: GitHubClient, repository: str, sha: str, check: CheckReport
) -> tuple[str, list[str]]:
    """GitHub shows the newest status of a name, whoever set it."""
    fields = _status_body(check)
    newest = next(
        (candidate for candidate in client.list_statuses(repository, sha) if candidate.context == check.name),
        None,
    )
    if newest is not None and _is_same_status(newest, fields):
        return newest.url, []
    return client.create_status(repository, sha, fields).url, [f"{check.name} as a commit status"]


def _status_body(check: CheckReport) -> dict[str, str]:
    line = check.status_text or check.title
    line = line if len(line) <= MAX_STATUS_LENGTH else line[: MAX_STATUS_LENGTH - 1] + "…"
    state = (
        "pending"
        if check.conclusion is None
        else check.status or STATE_OF_CONCLUSION.get(check.conclusion, "error")
    )
    fields = {"state": state, "context": check.name, "description": line}
    return fields | ({"target_url": check.details_url} if check.details_url else {})


def _is_same_status(status: CommitStatus, body: dict[str, str]) -> bool:
    return (status.state, status.description, status.target_url or "") == (
        body["state"],
        body["description"],
        body.get("target_url", ""),
    )
