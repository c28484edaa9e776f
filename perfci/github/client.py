"""The typed client of GitHub's API: one method for each request that perfci makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import httpx

from perfci.github import api_operations as ask
from perfci.github import payloads
from perfci.github.api_operations import GitHubOperation, repository_path_parameters, require_full_sha
from perfci.github.requester import DownloadLimits, GitHubRequester, GitHubRetryPolicy, PathValues
from perfci.model import PerfciError
from perfci.net.http_client import open_http_client

T = TypeVar("T")

GITHUB_API_URL = "https://api.github.com"


def open_github_client(
    token: str | Callable[[], str],
    base_url: str = GITHUB_API_URL,
    *,
    retry_policy: GitHubRetryPolicy | None = None,
    transport: httpx.BaseTransport | None = None,
) -> GitHubClient:
    """Open a client of github.com, or of an Enterprise Server at ``https://HOST/api/v3``."""
    held = token if callable(token) else lambda: token
    return GitHubClient(GitHubRequester(open_http_client(base_url, transport=transport), held, retry_policy))


class GitHubClient:
    """Repositories are named ``owner/name``, commits by their full sha."""

    def __init__(self, requester: GitHubRequester) -> None:
        self._requester = requester

    def get_app(self) -> payloads.AppInfo:
        """Get the App that the request authenticates as; needs its JWT, not a token."""
        return self._request_one(payloads.AppInfo, ask.GET_APP, {})

    def get_installation(self, repository: str) -> payloads.InstallationRef:
        """Get the installation of this App that covers a repository; needs the JWT of the App."""
        return self._request_one(
            payloads.InstallationRef, ask.GET_INSTALLATION, repository_path_parameters(repository)
        )

    def create_installation_token(
        self, installation: int, repositories: Sequence[int], permissions: Mapping[str, str]
    ) -> payloads.MintedToken:
        """Create a token for repositories and permissions of an installation; needs the JWT of the App."""
        body_fields = {"repository_ids": list(repositories), "permissions": dict(permissions)}
        return self._request_one(
            payloads.MintedToken,
            ask.CREATE_INSTALLATION_TOKEN,
            {"installation_id": installation},
            body_fields,
        )

    def get_repository(self, repository: str) -> payloads.RepositoryDetails:
        return self._request_one(
            payloads.RepositoryDetails, ask.GET_REPOSITORY, repository_path_parameters(repository)
        )

    def get_user_permission(self, repository: str, login: str) -> payloads.Permission:
        return self._request_one(
            payloads.Permission,
            ask.GET_PERMISSION,
            repository_path_parameters(repository) | {"username": login},
        )

    def get_pull(self, repository: str, number: int) -> payloads.PullRequest:
        return self._request_one(
            payloads.PullRequest,
            ask.GET_PULL,
            repository_path_parameters(repository) | {"pull_number": number},
        )

    def list_open_pulls(
        self, repository: str, head_owner: str, head_branch: str
    ) -> Iterator[payloads.PullRequest]:
        """List open pull requests from a branch of that name in any repository of that owner."""
        # A branch without its owner is no filter for GitHub: every pull request would come.
        query = {"state": "open", "head": f"{head_owner}:{head_branch}"}
        return self._list_all(
            payloads.PullRequest, ask.LIST_PULLS, repository_path_parameters(repository), query
        )

    def list_closed_pulls(self, repository: str) -> Iterator[payloads.PullRequest]:
        """List closed pull requests, merged or not, the last updated first."""
        query = {"state": "closed", "sort": "updated", "direction": "desc"}
        return self._list_all(
            payloads.PullRequest, ask.LIST_PULLS, repository_path_parameters(repository), query
        )

    def list_pulls_of_commit(self, repository: str, sha: str) -> Iterator[payloads.PullRequest]:
        """List the pull requests that contain a commit."""
        return self._list_all(
            payloads.PullRequest,
            ask.LIST_PULLS_OF_COMMIT,
            repository_path_parameters(repository) | {"commit_sha": require_full_sha(sha)},
        )

    def list_comments(self, repository: str, number: int) -> Iterator[payloads.Comment]:
        return self._list_all(
            payloads.Comment,
            ask.LIST_COMMENTS,
            repository_path_parameters(repository) | {"issue_number": number},
        )

    def list_repository_comments(self, repository: str, since: datetime) -> Iterator[payloads.Comment]:
        """List comments on issues and pull requests, written or edited since ``since``, newest first."""
        query = {"since": f"{since:%Y-%m-%dT%H:%M:%SZ}", "sort": "updated", "direction": "desc"}
        return self._list_all(
            payloads.Comment, ask.LIST_REPOSITORY_COMMENTS, repository_path_parameters(repository), query
        )

    def get_comment(self, repository: str, comment: int) -> payloads.Comment:
        where = repository_path_parameters(repository) | {"comment_id": comment}
        return self._request_one(payloads.Comment, ask.GET_COMMENT, where)

    def create_reaction(self, repository: str, comment: int, content: str) -> None:
        """React to a comment, such as with "eyes"; a reaction that is there stays."""
        where = repository_path_parameters(repository) | {"comment_id": comment}
        self._requester.send(ask.CREATE_REACTION, where, body={"content": content})

    def list_issue_events(self, repository: str, number: int) -> Iterator[payloads.IssueEvent]:
        """List what happened to an issue or a pull request, oldest first."""
        where = repository_path_parameters(repository) | {"issue_number": number}
        return self._list_all(payloads.IssueEvent, ask.LIST_ISSUE_EVENTS, where)

    def create_comment(self, repository: str, number: int, body: str) -> payloads.Comment:
        where = repository_path_parameters(repository) | {"issue_number": number}
        return self._request_one(payloads.Comment, ask.CREATE_COMMENT, where, {"body": body})

    def update_comment(self, repository: str, comment: int, body: str) -> payloads.Comment:
        where = repository_path_parameters(repository) | {"comment_id": comment}
        return self._request_one(payloads.Comment, ask.UPDATE_COMMENT, where, {"body": body})

    def delete_comment(self, repository: str, comment: int) -> None:
        self._requester.send(
            ask.DELETE_COMMENT, repository_path_parameters(repository) | {"comment_id": comment}
        )

    def list_newest_labeled_issues(self, repository: str, label: str) -> tuple[payloads.Issue, ...]:
        """List the hundred issues that were opened last, closed ones too."""
        query = {"labels": label, "state": "all", "sort": "created", "direction": "desc", "per_page": 100}
        return self._request_one(
            tuple[payloads.Issue, ...], ask.LIST_ISSUES, repository_path_parameters(repository), query=query
        )

    def create_issue(
        self, repository: str, title: str, body: str, labels: Sequence[str] = ()
    ) -> payloads.Issue:
        body_fields = {"title": title, "body": body, "labels": list(labels)}
        return self._request_one(
            payloads.Issue, ask.CREATE_ISSUE, repository_path_parameters(repository), body_fields
        )

    def list_check_runs(self, repository: str, sha: str, name: str) -> Iterator[payloads.CheckRun]:
        """List the check runs of that name on a commit, superseded ones too."""
        where, query = (
            repository_path_parameters(repository) | {"ref": require_full_sha(sha)},
            {"check_name": name, "filter": "all"},
        )
        pages = self._requester.iter_pages(ask.LIST_CHECKS, where, query)
        return (
            check_run
            for page in pages
            for check_run in self._parse(payloads.CheckRuns, ask.LIST_CHECKS, where, page).check_runs
        )

    def create_check_run(self, repository: str, check: Mapping[str, Any]) -> payloads.CheckRun:
        return self._request_one(
            payloads.CheckRun, ask.CREATE_CHECK, repository_path_parameters(repository), check
        )

    def update_check_run(self, repository: str, number: int, check: Mapping[str, Any]) -> payloads.CheckRun:
        return self._request_one(
            payloads.CheckRun,
            ask.UPDATE_CHECK,
            repository_path_parameters(repository) | {"check_run_id": number},
            check,
        )

    def list_commit_statuses(self, repository: str, sha: str) -> Iterator[payloads.CommitStatus]:
        """List the commit statuses of a commit, newest first."""
        return self._list_all(
            payloads.CommitStatus,
            ask.LIST_STATUSES,
            repository_path_parameters(repository) | {"ref": require_full_sha(sha)},
        )

    def create_commit_status(
        self, repository: str, sha: str, status: Mapping[str, str]
    ) -> payloads.CommitStatus:
        return self._request_one(
            payloads.CommitStatus,
            ask.CREATE_STATUS,
            repository_path_parameters(repository) | {"sha": require_full_sha(sha)},
            status,
        )

    def get_workflow_run(self, repository: str, run: int) -> payloads.WorkflowRun:
        return self._request_one(
            payloads.WorkflowRun,
            ask.GET_WORKFLOW_RUN,
            repository_path_parameters(repository) | {"run_id": run},
        )

    def list_completed_workflow_runs(self, repository: str, event: str) -> Iterator[payloads.WorkflowRun]:
        """List completed runs of any workflow that such events started, newest first; a thousand at most."""
        # The pull requests of a run are empty for forks (see WorkflowRun), so nothing here reads them.
        query = {"event": event, "status": "completed", "exclude_pull_requests": True}
        where, operation = repository_path_parameters(repository), ask.LIST_WORKFLOW_RUNS
        pages = self._requester.iter_pages(operation, where, query)
        return (
            run
            for page in pages
            for run in self._parse(payloads.WorkflowRuns, operation, where, page).workflow_runs
        )

    def list_newest_dispatched_runs(self, repository: str, workflow: str) -> tuple[payloads.WorkflowRun, ...]:
        """List the hundred newest runs of a workflow file that were started by hand."""
        where = repository_path_parameters(repository) | {"workflow_id": workflow}
        query = {"event": "workflow_dispatch", "exclude_pull_requests": True, "per_page": 100}
        return self._request_one(
            payloads.WorkflowRuns, ask.LIST_RUNS_OF_WORKFLOW, where, query=query
        ).workflow_runs

    def dispatch_workflow(self, repository: str, workflow: str, ref: str, inputs: Mapping[str, str]) -> None:
        """Start a workflow file by hand on a branch or tag.

        GitHub names the run that it starts only on request, and an Enterprise Server not at all, so that its
        name has to tell it.
        """
        where = repository_path_parameters(repository) | {"workflow_id": workflow}
        self._requester.send(ask.DISPATCH_WORKFLOW, where, body={"ref": ref, "inputs": dict(inputs)})

    def cancel_workflow_run(self, repository: str, run: int) -> None:
        self._requester.send(
            ask.CANCEL_WORKFLOW_RUN, repository_path_parameters(repository) | {"run_id": run}
        )

    def find_merge_base(self, repository: str, base: str, head: str) -> str:
        """Find the newest commit that two commits have in common."""
        sides = f"{require_full_sha(base)}...{require_full_sha(head)}"
        where = repository_path_parameters(repository) | {"basehead": sides}
        # The files that differ come with the first page only.
        query = {"page": 2, "per_page": 1}
        return self._request_one(
            payloads.MergeBase, ask.COMPARE_COMMITS, where, query=query
        ).merge_base_commit.sha

    def list_workflow_run_artifacts(
        self, repository: str, run: int, name: str
    ) -> tuple[payloads.Artifact, ...]:
        """List the artifacts of that name of one run, one for each attempt."""
        where = repository_path_parameters(repository) | {"run_id": run}
        return self._request_one(
            payloads.Artifacts, ask.LIST_ARTIFACTS, where, query={"name": name}
        ).artifacts

    def list_repository_artifacts(self, repository: str, name: str) -> Iterator[payloads.Artifact]:
        """List the artifacts of that name of all runs, newest first."""
        where = repository_path_parameters(repository)
        pages = self._requester.iter_pages(ask.LIST_REPOSITORY_ARTIFACTS, where, {"name": name})
        shape, operation = payloads.Artifacts, ask.LIST_REPOSITORY_ARTIFACTS
        return (
            artifact for page in pages for artifact in self._parse(shape, operation, where, page).artifacts
        )

    def download_artifact(self, repository: str, artifact: int, limits: DownloadLimits) -> bytes:
        """Download an artifact as a zip, any byte of which may come from the pull request."""
        where = repository_path_parameters(repository) | {"artifact_id": artifact, "archive_format": "zip"}
        return self._requester.download_file(ask.DOWNLOAD_ARTIFACT, where, f"artifact {artifact}", limits)

    def _request_one(
        self,
        response_type: type[T],
        operation: GitHubOperation,
        path_values: PathValues,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
    ) -> T:
        response = self._requester.send(operation, path_values, query=query, body=body)
        return self._parse(response_type, operation, path_values, response.content)

    def _list_all(
        self,
        response_type: type[T],
        operation: GitHubOperation,
        path_values: PathValues,
        query: Mapping[str, Any] | None = None,
    ) -> Iterator[T]:
        for page in self._requester.iter_pages(operation, path_values, query):
            yield from self._parse(tuple[response_type, ...], operation, path_values, page)  # type: ignore[valid-type]

    def _parse(
        self, response_type: type[T], operation: GitHubOperation, path_values: PathValues, content: bytes
    ) -> T:
        try:
            return payloads.parse_payload(response_type, content)
        except payloads.UnexpectedPayload as error:
            raise PerfciError(
                f"{self._requester.server_url} was to {operation.describe(path_values)} and answered "
                "something else than GitHub "
                f"does ({error}). Is it the address of the API: https://HOST/api/v3 of an Enterprise Server?"
            ) from None
