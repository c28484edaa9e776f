"""Answer an order whose run on GitHub has ended: store what was measured, report it, and close the order."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime

from perfci.github.app_auth import GitHubApp
from perfci.github.client import GitHubClient
from perfci.github.errors import GitHubError
from perfci.github.payloads import WorkflowRun
from perfci.github.pull_report import ReportOutdated
from perfci.report.pulls.not_measured_comment import NotMeasuredReason
from perfci.service.audit_context import AuditContext
from perfci.service.orders.carry_out_orders import OrderResult, fail_order, finish_order
from perfci.service.pulls.artifact_intake import ArtifactIntake
from perfci.service.pulls.download_results_artifact import ResultsArtifact, fetch_order_artifact
from perfci.service.pulls.job_trigger_event import PullRef
from perfci.service.pulls.pull_order_text import summarize_order_findings
from perfci.service.pulls.pull_reporter import PullReporter
from perfci.service.pulls.results_artifact_files import PullResults
from perfci.service.pulls.store_artifact_runs import build_workflow_run_actor
from perfci.store import Store
from perfci.store.jobs.measurement_orders import CANCELLED, DONE, MeasurementOrder, close_order
from perfci.store.projects import Project

CANCELLED_THERE = "Cancelled on GitHub, or out of time."
NOTHING_DIFFERS = OrderResult("unchanged")

log = logging.getLogger("perfci.github")


@dataclass(frozen=True)
class OrderAnswerer:
    """Closes orders by what their runs left; repeated after a crash, it stores and reports nothing twice."""

    reporter: PullReporter
    intake: ArtifactIntake

    @property
    def store(self) -> Store:
        return self.reporter.store

    @property
    def app(self) -> GitHubApp:
        return self.reporter.app

    def answer(
        self, client: GitHubClient, project: Project, order: MeasurementOrder, run: WorkflowRun, now: datetime
    ) -> bool:
        """Close an order with the results of its run; False where it left none."""
        artifact = fetch_order_artifact(client, run.repository.full_name, run.id, order.content)
        if artifact.results is None and not artifact.problem:
            return False
        problem = _find_problem(artifact)
        if problem or artifact.results is None:
            with self.store.begin() as tx:
                fail_order(tx, order, now, problem)
            return True
        result = self._store_runs(project, order, run, artifact, now)
        closed = replace(order, state=DONE, result=result.to_json())
        for number in _list_pull_numbers(order):
            self._report(client, project, closed, run, number, artifact.results)
        with self.store.begin() as tx:
            finish_order(tx, order, now, result)
        return True

    def cancel(self, order: MeasurementOrder, run: WorkflowRun, now: datetime) -> int:
        """Close an order whose run was cancelled."""
        log.info("order %d of %s: run %d was cancelled", order.id, order.project, run.id)
        with self.store.begin() as tx:
            return int(close_order(tx, order, CANCELLED, now, problem=CANCELLED_THERE))

    def _store_runs(
        self,
        project: Project,
        order: MeasurementOrder,
        run: WorkflowRun,
        artifact: ResultsArtifact,
        now: datetime,
    ) -> OrderResult:
        """Store what was measured as a comparison: the head is that of the order, whatever the run is of."""
        measured = replace(run, head_sha=order.content.head_sha)
        context = AuditContext(build_workflow_run_actor(project, measured), now)
        sessions = self.intake.store_runs(measured, artifact, project, context)
        assert artifact.results is not None
        if artifact.results.findings is None:
            return NOTHING_DIFFERS
        return summarize_order_findings(artifact.results.findings, sessions)

    def _report(
        self,
        client: GitHubClient,
        project: Project,
        order: MeasurementOrder,
        run: WorkflowRun,
        number: int,
        answer: PullResults,
    ) -> None:
        """Report an answer on a pull request, unless that is closed or at another commit by now."""
        repository = run.repository.full_name
        try:
            pull = client.get_pull(repository, number)
            if pull.state != "open" or pull.head.sha != order.content.head_sha:
                return
            place = PullRef(repository, number, pull.base.sha, pull.head.sha)
            own = self.reporter.fetch_own_results(client, place, project)
            self.reporter.report(
                client, place, project, own, run.attempt_page_url, has_page=True, closing=(order, answer)
            )
        except ReportOutdated as outdated:
            log.info("order %d: %s", order.id, outdated)
        except GitHubError as error:
            if error.is_transient:
                raise
            # The answer stands in the database; that it cannot be shown there is no reason to lose it.
            log.error("order %d is not reported on %s#%d: %s", order.id, repository, number, error)


def _find_problem(artifact: ResultsArtifact) -> str:
    """Why there is no answer; empty where there is one, or nothing differs."""
    results = artifact.results
    if results is None:
        return artifact.problem
    if results.findings is not None or results.not_measured is NotMeasuredReason.IDENTICAL:
        return ""
    return results.detail or f"Nothing was measured: {results.not_measured}."


def _list_pull_numbers(order: MeasurementOrder) -> list[int]:
    numbers = [request.pull_number for request in order.requests if request.pull_number is not None]
    return list(dict.fromkeys(numbers))
