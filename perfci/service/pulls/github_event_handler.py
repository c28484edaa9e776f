"""Handle received GitHub events: store and report measured results, save expected changes of merges."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from perfci.auth.permissions import Actor, ProjectRole, Scope
from perfci.github.client import GitHubClient
from perfci.github.payloads import WorkflowRun
from perfci.github.pull_report import ReportOutdated
from perfci.github.pulls_of_workflow_run import find_open_pulls_of_run
from perfci.model import Commit
from perfci.report.pulls.not_measured_comment import NotMeasuredReason
from perfci.service.audit_context import AuditContext
from perfci.service.pulls.artifact_intake import ArtifactIntake
from perfci.service.pulls.download_results_artifact import (
    ResultsArtifact,
    fetch_run_artifact,
    find_artifact_of_commit,
)
from perfci.service.pulls.expected_changes import (
    build_expected_changes_of_merge,
    is_pull_merged_into,
    save_expected_changes,
)
from perfci.service.pulls.job_trigger_event import PullRef
from perfci.service.pulls.place_pull_orders import PullOrderPlacer
from perfci.service.pulls.pull_reporter import PullReporter
from perfci.service.pulls.report_pull import build_results_without_artifact, mark_comment_outdated
from perfci.service.pulls.results_artifact_files import PullResults
from perfci.service.pulls.store_artifact_runs import build_workflow_run_actor
from perfci.service.pulls.webhook_receiver import (
    ACCEPT_COMMENT,
    ANSWERED_ORDER,
    JUDGED_UPLOADS,
    MERGED_PULL,
    ORDER_COMMENT,
    ORDER_LABEL,
    ORDER_RUN,
    STARTED_ACTIONS,
    is_bound_workflow_run,
    is_same_repository,
)
from perfci.store import Store
from perfci.store.access import github_bindings
from perfci.store.access.github_bindings import BoundRepository
from perfci.store.jobs.github_events import GitHubEventPayload, StoredGitHubEvent
from perfci.store.projects import Project, find_project

UNMEASURED_CONCLUSIONS = frozenset({"action_required", "skipped", "stale"})
"""Conclusions of runs that measured nothing; a run awaiting approval is reported once it ran."""

NOTHING_KEPT = "No results of the newest commit are kept: they have to be measured again."

log = logging.getLogger("perfci.github")


@dataclass(frozen=True)
class GitHubEventHandler:
    """Processes received events with the key of the App, without trusting content of pull requests.

    ``wake_order_engine`` is called for events about the runs of orders.
    """

    reporter: PullReporter
    intake: ArtifactIntake
    wake_order_engine: Callable[[], None]

    def __call__(self, event: StoredGitHubEvent, now: datetime) -> str:
        """Process an event; return why there was nothing to do. Repeated calls have no further effect."""
        payload, store = event.payload, self.reporter.store
        if payload.action == ORDER_RUN:
            self.wake_order_engine()
            return ""
        with store.read() as tx:
            project, bound = (
                find_project(tx, event.project),
                github_bindings.find_repository_of_project(tx, event.project_id),
            )
        if project is None or project.archived or bound is None:
            return "The project is archived, or bound to no repository any more."
        installation = payload.installation or self.reporter.app.find_installation(bound.slug)
        if installation is None:
            return f"The GitHub App is not installed for {bound.slug}."
        client = self.reporter.app.open_installation_client(installation, [bound.repository_id])
        placer = PullOrderPlacer(self.reporter)
        try:
            if payload.action == MERGED_PULL:
                return _save_merged_pull(store, client, payload, project, bound, now)
            if payload.action == ORDER_COMMENT:
                return placer.place_comment_order(client, event, project, bound, now)
            if payload.action == ORDER_LABEL:
                return placer.place_label_order(client, event, project, bound, now)
            if payload.action in (ACCEPT_COMMENT, JUDGED_UPLOADS, ANSWERED_ORDER):
                return self._report_again(client, payload, project, bound, now)
            return self._handle_run_event(client, payload, project, bound, now)
        except ReportOutdated as gone:
            return str(gone)

    def _handle_run_event(
        self,
        client: GitHubClient,
        payload: GitHubEventPayload,
        project: Project,
        bound: BoundRepository,
        now: datetime,
    ) -> str:
        ran = client.get_workflow_run(payload.repository, payload.number)
        has_only_started = payload.action in STARTED_ACTIONS
        if not is_bound_workflow_run(ran, bound):
            return "The project is bound to another repository or workflow by now."
        if has_only_started == (ran.status == "completed"):
            return f"The run is {ran.status} by now; GitHub sends its own event."
        if not has_only_started:
            return self._report_run(client, ran, project, payload, now)
        for pull in _list_pulls_of_run(client, ran):
            mark_comment_outdated(client, self.reporter.author, pull, project.slug)
        return ""

    def _report_again(
        self,
        client: GitHubClient,
        payload: GitHubEventPayload,
        project: Project,
        bound: BoundRepository,
        now: datetime,
    ) -> str:
        """Report what was measured of the newest commit: by the pull request's own run, else uploaded for it,
        or by orders.
        """
        reporter, number = self.reporter, payload.number
        pull = client.get_pull(payload.repository, number)
        if payload.action == ANSWERED_ORDER and pull.state != "open":
            return f"{payload.repository}#{number} is closed."
        artifact = find_artifact_of_commit(
            client, payload.repository, pull.head.sha, reporter.list_order_runs(project, number)
        )
        measured_by = artifact.workflow_run.id if artifact and artifact.workflow_run else None
        if measured_by is not None:
            ran = client.get_workflow_run(payload.repository, measured_by)
            if not is_bound_workflow_run(ran, bound):
                return "The project is bound to another repository or workflow by now."
            return self._report_run(client, ran, project, payload, now)
        place = PullRef(payload.repository, number, pull.base.sha, pull.head.sha)
        is_of_project = pull.base.repo is not None and is_same_repository(pull.base.repo, bound)
        has_uploads = pull.state == "open" and is_of_project
        results = reporter.load_upload_results(place, project) if has_uploads else None
        if reporter.report(client, place, project, results, "", has_page=True) is None:
            return NOTHING_KEPT
        return ""

    def _report_run(
        self,
        client: GitHubClient,
        workflow_run: WorkflowRun,
        project: Project,
        payload: GitHubEventPayload,
        now: datetime,
    ) -> str:
        repository = workflow_run.repository.full_name
        pulls = _list_pulls_of_run(client, workflow_run)
        left = fetch_run_artifact(client, repository, workflow_run.id, workflow_run.head_sha)
        if left.results is None and workflow_run.conclusion in UNMEASURED_CONCLUSIONS:
            return f"Nothing was measured: the run ended as {workflow_run.conclusion}."
        context = AuditContext(build_workflow_run_actor(project, workflow_run), now, payload.delivery)
        number = pulls[0].number if pulls else None
        sessions = self.intake.store_runs(workflow_run, left, project, context, number)
        for pull in pulls:
            shown = _build_results(left, pull, project.slug, workflow_run)
            url = workflow_run.attempt_page_url
            result = self.reporter.report(client, pull, project, shown, url, has_page=bool(sessions))
            written = result.written if result else ()
            log.info("%s#%d updated: %s", repository, pull.number, ", ".join(written) or "nothing new")
        return ""


def _list_pulls_of_run(client: GitHubClient, workflow_run: WorkflowRun) -> list[PullRef]:
    return [
        PullRef(workflow_run.repository.full_name, pull.number, pull.base.sha, pull.head.sha)
        for pull in find_open_pulls_of_run(client, workflow_run)
    ]


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


def _build_results(
    artifact: ResultsArtifact, pull: PullRef, key: str, workflow_run: WorkflowRun
) -> PullResults:
    if artifact.problem:
        sides = Commit(pull.base), Commit(pull.head)
        return PullResults(key, *sides, not_measured=NotMeasuredReason.BROKEN, detail=artifact.problem)
    if artifact.results is None:
        return build_results_without_artifact(pull, key, workflow_run.conclusion or "")
    return replace(artifact.results, project=key)
