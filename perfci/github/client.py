"""The typed client of GitHub's API: one method for each thing that perfci asks of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import httpx

from perfci.github import operations as ask
from perfci.github import shapes
from perfci.github.downloads import Limits
from perfci.github.operations import Operation, full, place
from perfci.github.requester import Caller, Patience, Where
from perfci.model import PerfciError
from perfci.net.http_client import open_client

T = TypeVar("T")

HOSTED = "https://api.github.com"


def connect(
    token: str | Callable[[], str],
    base_url: str = HOSTED,
    *,
    patience: Patience | None = None,
    transport: httpx.BaseTransport | None = None,
) -> Client:
    """A client of github.com, or of an Enterprise Server at ``https://HOST/api/v3``."""
    held = token if callable(token) else lambda: token
    return Client(Caller(open_client(base_url, transport=transport), held, patience))


class Client:
    """Repositories are named ``owner/name``, commits by their full sha."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def app(self) -> shapes.App:
        """Which App asks; GitHub answers to its own signature only, and to no token."""
        return self._one(shapes.App, ask.GET_APP, {})

    def installation(self, repository: str) -> shapes.InstallationRef:
        """Where this App is installed for a repository; GitHub answers to the App's signature."""
        return self._one(shapes.InstallationRef, ask.GET_INSTALLATION, place(repository))

    def mint(
        self, installation: int, repositories: Sequence[int], permissions: Mapping[str, str]
    ) -> shapes.MintedToken:
        """A token for some repositories and permissions of an installation; GitHub answers to the App's signature."""
        asked = {"repository_ids": list(repositories), "permissions": dict(permissions)}
        return self._one(shapes.MintedToken, ask.MINT_TOKEN, {"installation_id": installation}, asked)

    def repository(self, repository: str) -> shapes.Repository:
        return self._one(shapes.Repository, ask.GET_REPOSITORY, place(repository))

    def permission(self, repository: str, login: str) -> shapes.Permission:
        return self._one(shapes.Permission, ask.GET_PERMISSION, place(repository) | {"username": login})

    def pull(self, repository: str, number: int) -> shapes.PullRequest:
        return self._one(shapes.PullRequest, ask.GET_PULL, place(repository) | {"pull_number": number})

    def open_pulls(self, repository: str, head_owner: str, head_branch: str) -> Iterator[shapes.PullRequest]:
        """Open pull requests from a branch of that name in any repository of that owner."""
        query = {"state": "open", "head": f"{head_owner}:{head_branch}"}
        return self._all(shapes.PullRequest, ask.LIST_PULLS, place(repository), query)

    def closed_pulls(self, repository: str) -> Iterator[shapes.PullRequest]:
        """Pull requests that were closed, merged or not, the one that changed last first."""
        query = {"state": "closed", "sort": "updated", "direction": "desc"}
        return self._all(shapes.PullRequest, ask.LIST_PULLS, place(repository), query)

    def pulls_of_commit(self, repository: str, sha: str) -> Iterator[shapes.PullRequest]:
        """The pull requests that brought a commit; of one that is on no branch yet, those that would."""
        return self._all(shapes.PullRequest, ask.LIST_PULLS_OF_COMMIT, place(repository) | {"commit_sha": full(sha)})

    def comments(self, repository: str, number: int) -> Iterator[shapes.Comment]:
        return self._all(shapes.Comment, ask.LIST_COMMENTS, place(repository) | {"issue_number": number})

    def talk_since(self, repository: str, since: datetime) -> Iterator[shapes.Comment]:
        """Comments on all issues and pull requests that were written or edited since then, the newest first."""
        query = {"since": f"{since:%Y-%m-%dT%H:%M:%SZ}", "sort": "updated", "direction": "desc"}
        return self._all(shapes.Comment, ask.LIST_TALK, place(repository), query)

    def create_comment(self, repository: str, number: int, body: str) -> shapes.Comment:
        where = place(repository) | {"issue_number": number}
        return self._one(shapes.Comment, ask.CREATE_COMMENT, where, {"body": body})

    def update_comment(self, repository: str, comment: int, body: str) -> shapes.Comment:
        where = place(repository) | {"comment_id": comment}
        return self._one(shapes.Comment, ask.UPDATE_COMMENT, where, {"body": body})

    def delete_comment(self, repository: str, comment: int) -> None:
        self._caller.answer(ask.DELETE_COMMENT, place(repository) | {"comment_id": comment})

    def newest_issues(self, repository: str, label: str) -> tuple[shapes.Issue, ...]:
        """The hundred that were opened last, closed ones too."""
        query = {"labels": label, "state": "all", "sort": "created", "direction": "desc", "per_page": 100}
        return self._one(tuple[shapes.Issue, ...], ask.LIST_ISSUES, place(repository), query=query)

    def create_issue(self, repository: str, title: str, body: str, labels: Sequence[str] = ()) -> shapes.Issue:
        asked = {"title": title, "body": body, "labels": list(labels)}
        return self._one(shapes.Issue, ask.CREATE_ISSUE, place(repository), asked)

    def checks(self, repository: str, sha: str, name: str) -> Iterator[shapes.CheckRun]:
        """Checks of that name on a commit, those that another one followed too."""
        where, query = place(repository) | {"ref": full(sha)}, {"check_name": name, "filter": "all"}
        pages = self._caller.pages(ask.LIST_CHECKS, where, query)
        return (one for page in pages for one in self._read(shapes.CheckRuns, ask.LIST_CHECKS, where, page).check_runs)

    def create_check(self, repository: str, check: Mapping[str, Any]) -> shapes.CheckRun:
        return self._one(shapes.CheckRun, ask.CREATE_CHECK, place(repository), check)

    def update_check(self, repository: str, number: int, check: Mapping[str, Any]) -> shapes.CheckRun:
        return self._one(shapes.CheckRun, ask.UPDATE_CHECK, place(repository) | {"check_run_id": number}, check)

    def statuses(self, repository: str, sha: str) -> Iterator[shapes.CommitStatus]:
        """The newest first."""
        return self._all(shapes.CommitStatus, ask.LIST_STATUSES, place(repository) | {"ref": full(sha)})

    def create_status(self, repository: str, sha: str, status: Mapping[str, str]) -> shapes.CommitStatus:
        return self._one(shapes.CommitStatus, ask.CREATE_STATUS, place(repository) | {"sha": full(sha)}, status)

    def workflow_run(self, repository: str, run: int) -> shapes.WorkflowRun:
        return self._one(shapes.WorkflowRun, ask.GET_WORKFLOW_RUN, place(repository) | {"run_id": run})

    def ended_runs(self, repository: str, event: str) -> Iterator[shapes.WorkflowRun]:
        """Runs of any workflow that such events started and that are over, the newest first; a thousand at most."""
        query = {"event": event, "status": "completed", "exclude_pull_requests": True}
        where, operation = place(repository), ask.LIST_WORKFLOW_RUNS
        pages = self._caller.pages(operation, where, query)
        return (one for page in pages for one in self._read(shapes.WorkflowRuns, operation, where, page).workflow_runs)

    def artifacts(self, repository: str, run: int, name: str) -> tuple[shapes.Artifact, ...]:
        """Artifacts of that name, one for each attempt that made it."""
        where = place(repository) | {"run_id": run}
        return self._one(shapes.Artifacts, ask.LIST_ARTIFACTS, where, query={"name": name}).artifacts

    def newest_artifacts(self, repository: str, name: str) -> Iterator[shapes.Artifact]:
        """Artifacts of that name, whichever run left them, the newest first."""
        where = place(repository)
        pages = self._caller.pages(ask.LIST_REPOSITORY_ARTIFACTS, where, {"name": name})
        shape, operation = shapes.Artifacts, ask.LIST_REPOSITORY_ARTIFACTS
        return (one for page in pages for one in self._read(shape, operation, where, page).artifacts)

    def download(self, repository: str, artifact: int, limits: Limits) -> bytes:
        """An artifact as a zip, which whoever opened the pull request may have written."""
        where = place(repository) | {"artifact_id": artifact, "archive_format": "zip"}
        return self._caller.file(ask.DOWNLOAD_ARTIFACT, where, f"artifact {artifact}", limits)

    def _one(
        self,
        shape: type[T],
        operation: Operation,
        where: Where,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
    ) -> T:
        found = self._caller.answer(operation, where, query=query, body=body)
        return self._read(shape, operation, where, found.content)

    def _all(
        self, shape: type[T], operation: Operation, where: Where, query: Mapping[str, Any] | None = None
    ) -> Iterator[T]:
        for page in self._caller.pages(operation, where, query):
            yield from self._read(tuple[shape, ...], operation, where, page)  # type: ignore[valid-type]

    def _read(self, shape: type[T], operation: Operation, where: Where, content: bytes) -> T:
        try:
            return shapes.read(shape, content)
        except shapes.Unexpected as error:
            raise PerfciError(
                f"{self._caller.server} was to {operation.aim_at(where)} and answered something else than GitHub "
                f"does ({error}). Is it the address of the API: https://HOST/api/v3 of an Enterprise Server?"
            ) from None
