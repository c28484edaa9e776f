"""Handle received GitHub events: store and report measured results, save expected changes of merges."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from perfci.auth.permissions import Actor, ProjectRole, Scope
from perfci.config import Settings
from perfci.github.app_auth import GitHubApp
from perfci.github.client import GitHubClient
from perfci.github.errors import GitHubError, GitHubNoResponse, GitHubUnreachable
from perfci.github.payloads import WorkflowRun
from perfci.github.pull_report import CommentAuthor, ReportOutdated
from perfci.github.pulls_of_workflow_run import find_open_pulls_of_run
from perfci.model import Commit, PerfciError
from perfci.report.pulls.not_measured_comment import NotMeasuredReason
from perfci.service.audit_context import AuditContext
from perfci.service.pulls.download_results_artifact import (
    ResultsArtifact,
    download_results_artifact,
    find_artifact_of_commit,
    find_artifact_of_run,
)
from perfci.service.pulls.expected_changes import (
    build_expected_changes_of_merge,
    is_pull_merged_into,
    save_expected_changes,
)
from perfci.service.pulls.github_event_worker import UploadsTooFast
from perfci.service.pulls.job_trigger_event import PullRef
from perfci.service.pulls.report_pull import (
    build_comparison_page_url,
    build_results_without_artifact,
    mark_comment_outdated,
    report_to_pull,
)
from perfci.service.pulls.results_artifact_files import PullResults
from perfci.service.pulls.store_artifact_runs import (
    build_pull_request_quota,
    build_workflow_run_actor,
    store_artifact_runs,
)
from perfci.service.pulls.webhook_receiver import (
    ACCEPT_COMMENT,
    MERGED_PULL,
    STARTED_ACTIONS,
    is_bound_workflow_run,
    is_same_repository,
)
from perfci.service.token_buckets import TokenBuckets
from perfci.store import Store
from perfci.store.access import github_bindings
from perfci.store.access.github_bindings import BoundRepository
from perfci.store.jobs.github_events import GitHubEventPayload, StoredGitHubEvent
from perfci.store.projects import Project, find_project

UNMEASURED_CONCLUSIONS = frozenset({"action_required", "skipped", "stale"})
"""Conclusions of runs that measured nothing; a run awaiting approval is reported once it ran."""

MIB = 1024 * 1024

log = logging.getLogger("perfci.github")


@dataclass(frozen=True)
class GitHubEventHandler:
    """Processes received events with the key of the App, without trusting content of pull requests."""

    store: Store
    app: GitHubApp
    settings: Settings

    def __call__(self, event: StoredGitHubEvent, now: datetime) -> str:
        """Process an event; return why there was nothing to do. Repeated calls have no further effect."""
        with self.store.read() as tx:
            project, bound = (
                find_project(tx, event.project),
                github_bindings.find_repository_of_project(tx, event.project_id),
            )
        if project is None or project.archived or bound is None:
            return "The project is archived, or bound to no repository any more."
        payload, client = (
            event.payload,
            self.app.open_installation_client(event.payload.installation, [bound.repository_id]),
        )
        if payload.action == MERGED_PULL:
            return _save_merged_pull(self.store, client, payload, project, bound, now)
        ran = _fetch_workflow_run(client, payload)
        if ran is None:
            return "No results of the newest commit are kept: they have to be measured again."
        if not is_bound_workflow_run(ran, bound):
            return "The project is bound to another repository or workflow by now."
        if (payload.action in STARTED_ACTIONS) == (ran.status == "completed"):
            return f"The run is {ran.status} by now; GitHub sends its own event."
        try:
            return self._handle_run(
                client,
                ran,
                payload.action in STARTED_ACTIONS,
                project,
                AuditContext(build_workflow_run_actor(project, ran), now, payload.delivery),
            )
        except ReportOutdated as gone:
            return str(gone)

    def _handle_run(
        self,
        client: GitHubClient,
        workflow_run: WorkflowRun,
        started: bool,
        project: Project,
        context: AuditContext,
    ) -> str:
        repository = workflow_run.repository.full_name
        pulls = [
            PullRef(repository, pull.number, pull.base.sha, pull.head.sha)
            for pull in find_open_pulls_of_run(client, workflow_run)
        ]
        if started:
            for pull in pulls:
                mark_comment_outdated(client, self._author, pull, project.slug)
            return ""
        left = _fetch_artifact(client, workflow_run)
        if left.results is None and workflow_run.conclusion in UNMEASURED_CONCLUSIONS:
            return f"Nothing was measured: the run ended as {workflow_run.conclusion}."
        self._require_upload_allowance(project, left)
        page = self._store_and_link(workflow_run, left, project, context)
        for pull in pulls:
            shown, gate = _build_results(left, pull, project.slug, workflow_run), self.settings.app.gate
            result = report_to_pull(
                client,
                self._author,
                pull,
                project.slug,
                shown,
                gate=gate,
                page_url=page,
                log_url=workflow_run.attempt_page_url,
            )
            log.info("%s#%d updated: %s", repository, pull.number, ", ".join(result.written) or "nothing new")
        return ""

    def _require_upload_allowance(self, project: Project, artifact: ResultsArtifact) -> None:
        """Let artifacts count as the uploads that they are; what is too much now is taken later."""
        size = sum(map(len, artifact.runs.values()))
        if wait_s := self._upload_buckets.take(project.slug, size):
            raise UploadsTooFast(wait_s)

    def _store_and_link(
        self, workflow_run: WorkflowRun, artifact: ResultsArtifact, project: Project, context: AuditContext
    ) -> str:
        """Store the runs and return the page URL of the comparison; empty if nothing could be stored."""
        quota = build_pull_request_quota(self.settings.server, workflow_run)
        runs = artifact.runs
        here, refused = store_artifact_runs(self.store, project, workflow_run, runs, context, quota)
        if refused:
            problem = f"{len(refused)} of its documents or sessions are not stored, {refused[0]}"
            log.warning("run %d of %s: %s", workflow_run.id, workflow_run.repository.full_name, problem)
        if not here or artifact.results is None or artifact.results.findings is None:
            return ""
        return build_comparison_page_url(
            self.settings.server.public_url, replace(artifact.results, project=project.slug)
        )

    @cached_property
    def _upload_buckets(self) -> TokenBuckets:
        return TokenBuckets(self.settings.server.uploads_per_minute_mb * MIB)

    @cached_property
    def _author(self) -> CommentAuthor:
        return self.app.fetch_app_comment_author()


def _save_merged_pull(
    store: Store,
    client: GitHubClient,
    payload: GitHubEventPayload,
    project: Project,
    bound: BoundRepository,
    now: datetime,
) -> str:
    """Save the expected changes of a merged pull request; return why there was nothing to save."""
    pull = client.get_pull(payload.repository, payload.number)
    if pull.base.repo is None or not is_same_repository(pull.base.repo, bound):
        return "The project is bound to another repository by now."
    if pull.merge_commit_sha is None or not is_pull_merged_into(pull, bound.history_refs):
        return f"{payload.repository}#{payload.number} is merged into no branch whose history is kept."
    changes = build_expected_changes_of_merge(client, payload.repository, pull, pull.merge_commit_sha)
    if not any(change.expected.is_authorized for change in changes):
        return "No expected change by an author with write access."
    repository = f"github-repository/{bound.repository_id}"
    actor = Actor("token", repository, {project.id: ProjectRole.ADMIN}, frozenset({Scope.WRITE}))
    with store.begin() as tx:
        save_expected_changes(tx, project, changes, AuditContext(actor, now, payload.delivery))
    return ""


def _fetch_workflow_run(client: GitHubClient, payload: GitHubEventPayload) -> WorkflowRun | None:
    """Fetch the current workflow run; for an acceptance, the one that measured the newest commit."""
    if payload.action != ACCEPT_COMMENT:
        return client.get_workflow_run(payload.repository, payload.number)
    head = client.get_pull(payload.repository, payload.number).head.sha
    artifact = find_artifact_of_commit(client, payload.repository, head)
    measured_by = artifact.workflow_run.id if artifact and artifact.workflow_run else None
    return None if measured_by is None else client.get_workflow_run(payload.repository, measured_by)


def _fetch_artifact(client: GitHubClient, workflow_run: WorkflowRun) -> ResultsArtifact:
    """Fetch the newest artifact of a run; an unreadable one is a result, not a failure to retry."""
    repository = workflow_run.repository.full_name
    newest = find_artifact_of_run(client, repository, workflow_run.id)
    if newest is None:
        return ResultsArtifact()
    try:
        return download_results_artifact(client, repository, newest, workflow_run.head_sha)
    except (GitHubError, GitHubNoResponse, GitHubUnreachable):
        raise
    except PerfciError as error:
        log.warning("run %d of %s: %s", workflow_run.id, repository, error)
        return ResultsArtifact(problem=str(error))


def _build_results(
    artifact: ResultsArtifact, pull: PullRef, key: str, workflow_run: WorkflowRun
) -> PullResults:
    if artifact.problem:
        sides = Commit(pull.base), Commit(pull.head)
        return PullResults(key, *sides, not_measured=NotMeasuredReason.BROKEN, detail=artifact.problem)
    if artifact.results is None:
        return build_results_without_artifact(pull, key, workflow_run.conclusion or "")
    return replace(artifact.results, project=key)
