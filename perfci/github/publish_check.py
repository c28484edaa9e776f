"""A check on a commit, found again by its id; or a commit status, where the token may not write checks."""

from __future__ import annotations

from typing import Any

from perfci.github.client import Client
from perfci.github.errors import Refused
from perfci.github.pull_report import MOST_DESCRIPTION, Author, Check
from perfci.github.shapes import CheckRun, CommitStatus

STATES = {"success": "success", "neutral": "success", "skipped": "success", "failure": "failure"}
"""A status knows neither neutral nor timed out: advice passes with its text, what broke is an error."""


def show_check(client: Client, author: Author, repository: str, sha: str, check: Check) -> tuple[str, list[str]]:
    """Where the check is, and what had to be written for it."""
    try:
        return _checked(client, author, repository, sha, check)
    except Refused as error:
        if not error.lacks_permission:
            raise
        refused = error
    try:
        return _stated(client, repository, sha, check)
    except Refused as error:
        if not error.lacks_permission:
            raise
        raise Refused(f"{refused} Without it a commit status would do, but: {error}", 403) from None


def _checked(client: Client, author: Author, repository: str, sha: str, check: Check) -> tuple[str, list[str]]:
    found = _newest(client, author, repository, sha, check)
    if found is not None and _shows(found, check):
        return found.html_url or "", []
    if found is None or (found.status == "completed" and check.state != "completed"):
        # A check that ended does not begin again: another one of its name takes its place.
        made = client.create_check(repository, {"head_sha": sha} | _asked(check))
    else:
        made = client.update_check(repository, found.id, _asked(check))
    return made.html_url or "", [check.name]


def _newest(client: Client, author: Author, repository: str, sha: str, check: Check) -> CheckRun | None:
    """Ids of checks grow; another App may use our names and ids, and its checks are not ours to change."""
    ours = [
        one
        for one in client.checks(repository, sha, check.name)
        if one.name == check.name
        and one.external_id == check.external_id
        and one.head_sha == sha
        and (author.app is None or (one.app is not None and one.app.id == author.app))
    ]
    return max(ours, key=lambda one: one.id, default=None)


def _asked(check: Check) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "name": check.name,
        "external_id": check.external_id,
        "status": check.state,
        "output": {"title": check.title, "summary": check.summary},
    }
    if check.conclusion is not None:
        asked["conclusion"] = check.conclusion
    if check.details_url:
        asked["details_url"] = check.details_url
    return asked


def _shows(found: CheckRun, check: Check) -> bool:
    return (found.status, found.conclusion, found.output.title, found.output.summary) == (
        check.state,
        check.conclusion,
        check.title,
        check.summary,
    ) and check.details_url in ("", found.details_url)


def _stated(client: Client, repository: str, sha: str, check: Check) -> tuple[str, list[str]]:
    """GitHub shows the newest status of a name, whoever set it."""
    asked = _status(check)
    newest = next((one for one in client.statuses(repository, sha) if one.context == check.name), None)
    if newest is not None and _says(newest, asked):
        return newest.url, []
    return client.create_status(repository, sha, asked).url, [f"{check.name} as a commit status"]


def _status(check: Check) -> dict[str, str]:
    line = check.line or check.title
    line = line if len(line) <= MOST_DESCRIPTION else line[: MOST_DESCRIPTION - 1] + "…"
    state = "pending" if check.conclusion is None else check.status or STATES.get(check.conclusion, "error")
    asked = {"state": state, "context": check.name, "description": line}
    return asked | ({"target_url": check.details_url} if check.details_url else {})


def _says(found: CommitStatus, asked: dict[str, str]) -> bool:
    return (found.state, found.description, found.target_url or "") == (
        asked["state"],
        asked["description"],
        asked.get("target_url", ""),
    )
