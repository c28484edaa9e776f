"""Report on pull requests as the App: results of their own runs, answers of orders, and their progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from perfci.config import Settings
from perfci.github import deliver_report
from perfci.github.app_auth import GitHubApp
from perfci.github.client import GitHubClient
from perfci.github.deliver_report import DeliveryResult
from perfci.github.pull_report import CommentAuthor
from perfci.project_policies import build_project_policies
from perfci.report.pulls.comparison_findings import Findings
from perfci.report.pulls.order_lines import replace_order_lines
from perfci.service.orders.check_order_content import GITHUB_ENGINE
from perfci.service.pulls.download_results_artifact import (
    download_artifact_or_problem,
    fetch_order_artifact,
    find_artifact_of_commit,
)
from perfci.service.pulls.job_trigger_event import PullRef
from perfci.service.pulls.pull_order_text import format_order_lines, select_orders_of_head
from perfci.service.pulls.report_pull import build_comparison_page_url, report_to_pull
from perfci.service.pulls.report_uploads import load_upload_report
from perfci.service.pulls.results_artifact_files import PullResults
from perfci.service.pulls.worker_answers import load_worker_answer
from perfci.store import Store
from perfci.store.explanations import load_explanations
from perfci.store.jobs.measurement_orders import DONE, MeasurementOrder, list_orders_of_pull
from perfci.store.projects import Project


@dataclass(frozen=True)
class PullReporter:
    """Writes the comment and the check of a pull request; repeated calls write nothing new.

    What an order measured again replaces what the pull request's own run found, whichever of them is
    reported last.
    """

    store: Store
    app: GitHubApp
    settings: Settings

    def report(
        self,
        client: GitHubClient,
        pull: PullRef,
        project: Project,
        results: PullResults | None,
        log_url: str,
        *,
        has_page: bool,
        closing: tuple[MeasurementOrder, PullResults] | None = None,
    ) -> DeliveryResult | None:
        """Report results together with the answers of orders; None where there are none to report.

        ``closing`` is an order that is about to be closed, and its answer.
        """
        orders = self._load_orders(project, pull, closing[0] if closing else None)
        answers = list(self._fetch_answers(client, pull, project, orders, closing))
        combined = combine_answers(results, [_complete_answer(answer, project) for answer in answers])
        if combined is None:
            self.write_order_lines(client, pull, project)
            return None
        combined = self._add_explanations(project, combined)
        has_page = combined.findings is not None and (has_page or bool(answers))
        return report_to_pull(
            client,
            self.author,
            pull,
            project.slug,
            combined,
            gate=self.settings.app.gate,
            page_url=build_comparison_page_url(self.settings.server.public_url, combined) if has_page else "",
            log_url=log_url,
            order_lines=self._format_order_lines(orders, pull),
        )

    def _add_explanations(self, project: Project, results: PullResults) -> PullResults:
        """Add what the store says of why these two commits differ."""
        if results.findings is None:
            return results
        with self.store.read() as tx:
            rows = load_explanations(tx, project.id, results.base.sha, results.head.sha)
        sentences = [str(row.document["markdown"]) for row in rows]
        return replace(results, findings=replace(results.findings, explanations=sentences))

    def fetch_own_results(self, client: GitHubClient, pull: PullRef, project: Project) -> PullResults | None:
        """Fetch what was measured of the newest commit: by its own run, else uploaded for it."""
        artifact = find_artifact_of_commit(
            client, pull.repository, pull.head, self.list_order_runs(project, pull.number)
        )
        if artifact is None:
            return self.load_upload_results(pull, project)
        results = download_artifact_or_problem(client, pull.repository, artifact, pull.head).results
        return None if results is None else replace(results, project=project.slug)

    def load_upload_results(self, pull: PullRef, project: Project) -> PullResults | None:
        """Load the verdicts on what was uploaded of the newest commit, which GitHub says, not the uploads."""
        policy = build_project_policies(self.settings, project).policy
        with self.store.read() as tx:
            report = load_upload_report(tx, project.slug, str(pull.number), policy, pull.head)
        if report is None or report.findings is None:
            return None
        return PullResults(project.slug, report.findings.base, report.findings.head, report.findings)

    def list_order_runs(self, project: Project, pull_number: int) -> set[int]:
        """List the workflow runs that orders of a pull request started."""
        with self.store.read() as tx:
            orders = list_orders_of_pull(tx, project.id, pull_number)
        return {int(order.external_run) for order in orders if order.external_run}

    def write_order_lines(self, client: GitHubClient, pull: PullRef, project: Project) -> bool:
        """Write how far the orders of the newest commit are; return whether that was something new."""
        lines = self._format_order_lines(self._load_orders(project, pull), pull)
        return deliver_report.edit_report_comment(
            client,
            self.author,
            pull.repository,
            pull.number,
            project.slug,
            pull.head,
            lambda text: replace_order_lines(text, lines),
        )

    @cached_property
    def author(self) -> CommentAuthor:
        """The account that this App comments as."""
        return self.app.fetch_app_comment_author()

    def _format_order_lines(self, orders: Sequence[MeasurementOrder], pull: PullRef) -> str:
        return format_order_lines(orders, pull.number, self.settings.server.public_url)

    def _load_orders(
        self, project: Project, pull: PullRef, closing: MeasurementOrder | None = None
    ) -> list[MeasurementOrder]:
        with self.store.read() as tx:
            orders = list_orders_of_pull(tx, project.id, pull.number)
        if closing is not None:
            orders = [closing if order.id == closing.id else order for order in orders]
        return select_orders_of_head(orders, pull.head)

    def _fetch_answers(
        self,
        client: GitHubClient,
        pull: PullRef,
        project: Project,
        orders: Sequence[MeasurementOrder],
        closing: tuple[MeasurementOrder, PullResults] | None,
    ) -> Iterator[PullResults]:
        """The answers of orders, oldest first; one whose artifact on GitHub is gone is left out."""
        policy = build_project_policies(self.settings, project).policy
        for order in orders:
            if closing is not None and order.id == closing[0].id:
                yield closing[1]
            elif order.state == DONE and order.content.engine == GITHUB_ENGINE and order.external_run:
                artifact = fetch_order_artifact(
                    client, pull.repository, int(order.external_run), order.content
                )
                if artifact.results is not None:
                    yield artifact.results
            else:
                with self.store.read() as tx:
                    answer = load_worker_answer(tx, order, policy)
                if answer is not None:
                    yield answer


def _complete_answer(answer: PullResults, project: Project) -> PullResults:
    """Say what only the server knows: the project, and that the base of an order here is the merge base."""
    findings = None if answer.findings is None else replace(answer.findings, merge_base=True)
    return replace(answer, project=project.slug, findings=findings)


def combine_answers(results: PullResults | None, answers: Sequence[PullResults]) -> PullResults | None:
    """Combine the results of a pull request with later answers; None without any.

    A series that was measured again has the verdict of the answer, so that a candidate is confirmed or
    refuted by it; the others keep theirs.
    """
    for answer in answers:
        results = answer if results is None else _put_over(results, answer)
    return results


def _put_over(results: PullResults, answer: PullResults) -> PullResults:
    if answer.findings is None:
        return results
    if results.findings is None or results.base.sha != answer.base.sha:
        return answer
    return replace(results, findings=_replace_verdicts(results.findings, answer.findings))


def _replace_verdicts(findings: Findings, answer: Findings) -> Findings:
    """A comparison that covers everything is the newer one as a whole."""
    answered = {verdict.series for verdict in answer.verdicts}
    kept = [verdict for verdict in findings.verdicts if verdict.series not in answered]
    if not kept:
        return replace(answer, main_drift=findings.main_drift, main_head=findings.main_head)
    bars = {**findings.bars_by_series, **answer.bars_by_series}
    verdicts = [*answer.verdicts, *kept]
    return replace(findings, verdicts=verdicts, bars=[bars[verdict.series] for verdict in verdicts])
