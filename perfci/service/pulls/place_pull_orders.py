"""Place the orders that people ask for on pull requests, by a comment or a label."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime

from perfci.auth.permissions import Actor, ProjectRole
from perfci.github.accept_comment import has_repository_write_access
from perfci.github.app_auth import MERGE_BASE_PERMISSIONS
from perfci.github.client import GitHubClient
from perfci.github.deliver_report import post_reply
from perfci.github.errors import GitHubError
from perfci.github.payloads import PullRequest
from perfci.github.run_comment import RunCommand, is_run_comment, parse_run_command
from perfci.model import PerfciError
from perfci.report.escaping import MAX_REASON_LENGTH, code_span
from perfci.service.audit_context import AuditContext
from perfci.service.orders.check_order_content import BISECT, COMPARE
from perfci.service.orders.place_orders import place_order
from perfci.service.pulls.pull_order_text import GITHUB_ACTOR
from perfci.service.pulls.pull_reporter import PullReporter
from perfci.store.access.github_bindings import BoundRepository
from perfci.store.jobs.github_events import StoredGitHubEvent
from perfci.store.jobs.measurement_orders import OrderContent, list_orders_of_pull
from perfci.store.projects import Project

COMMENT, LABEL = "comment", "label"

OF_A_FORK = (
    "This pull request comes from a fork. Its code runs in the workflow run of the pull request alone, which "
    "may write nothing: run that one again instead."
)

log = logging.getLogger("perfci.github")


class OrderRefused(PerfciError):
    """An order that cannot be placed, for a reason that is told on the pull request."""


@dataclass(frozen=True)
class _Request:
    """Who asks for a measurement of which pull request, and how."""

    pull: PullRequest
    login: str
    source: str
    comment: int | None = None
    body: str = ""


@dataclass(frozen=True)
class PullOrderPlacer:
    """Places orders for those who may write to the repository, as GitHub says; others get no answer."""

    reporter: PullReporter

    def place_comment_order(
        self,
        client: GitHubClient,
        event: StoredGitHubEvent,
        project: Project,
        bound: BoundRepository,
        now: datetime,
    ) -> str:
        """Place the order of a comment; return why there was nothing to do."""
        repository = event.payload.repository
        try:
            comment = client.get_comment(repository, event.payload.number)
        except GitHubError as error:
            if error.status != 404:
                raise
            return "The comment is gone."
        if comment.user is None or comment.pull_number is None or not is_run_comment(comment.body):
            return "The comment orders nothing any more."
        login = comment.user.login
        if not has_repository_write_access(client, repository, login):
            return f"{login} may not write to {repository}."
        pull = client.get_pull(repository, comment.pull_number)
        request = _Request(pull, login, COMMENT, comment.id, comment.body)
        problem = self._place(client, event, project, bound, request, now)
        client.create_reaction(repository, comment.id, "confused" if problem else "eyes")
        return problem

    def place_label_order(
        self,
        client: GitHubClient,
        event: StoredGitHubEvent,
        project: Project,
        bound: BoundRepository,
        now: datetime,
    ) -> str:
        """Place the order of a label; return why there was nothing to do."""
        repository, number = event.payload.repository, event.payload.number
        label = self.reporter.settings.app.order_label
        pull = client.get_pull(repository, number)
        if label not in {item.name for item in pull.labels}:
            return f"{repository}#{number} has the label {label} no more."
        login = _find_who_labeled(client, repository, number, label)
        if login is None or not has_repository_write_access(client, repository, login):
            return f"{login or 'Nobody known'} may not write to {repository}."
        return self._place(client, event, project, bound, _Request(pull, login, LABEL), now)

    def _place(
        self,
        client: GitHubClient,
        event: StoredGitHubEvent,
        project: Project,
        bound: BoundRepository,
        request: _Request,
        now: datetime,
    ) -> str:
        """Place an order, or reply why not; a repeated event places nothing more."""
        if self._is_placed(project, event, request):
            return ""
        try:
            content = self._build_content(event, bound, request)
            context = _build_context(event, project, request.login, now)
            with self.reporter.store.begin() as tx:
                place_order(
                    tx,
                    context,
                    project,
                    content,
                    request.source,
                    pull_number=request.pull.number,
                    comment_id=request.comment,
                )
        except PerfciError as error:
            if not _is_for_reader(error):
                raise
            text = (
                f"Not ordered by {code_span(request.login)}: {code_span(str(error), limit=MAX_REASON_LENGTH)}"
            )
            post_reply(
                client,
                self.reporter.author,
                event.payload.repository,
                request.pull.number,
                event.payload.delivery,
                text,
            )
            return str(error)
        return ""

    def _is_placed(self, project: Project, event: StoredGitHubEvent, request: _Request) -> bool:
        with self.reporter.store.read() as tx:
            orders = list_orders_of_pull(tx, project.id, request.pull.number)
        return any(
            (earlier.source, earlier.comment_id) == (request.source, request.comment)
            and (request.comment is not None or earlier.requested_at >= event.received_at)
            for order in orders
            for earlier in order.requests
        )

    def _build_content(
        self, event: StoredGitHubEvent, bound: BoundRepository, request: _Request
    ) -> OrderContent:
        pull = request.pull
        if pull.state != "open":
            raise OrderRefused("This pull request is closed.")
        if pull.head.repo is None or pull.head.repo.id != bound.repository_id:
            raise OrderRefused(OF_A_FORK)
        command = parse_run_command(request.body) if request.comment is not None else RunCommand()
        base = self._find_merge_base(event, bound, pull)
        if base == pull.head.sha:
            raise OrderRefused("This pull request has no commit that its target branch lacks.")
        settings = self.reporter.settings
        if command.is_bisect:
            return OrderContent(
                BISECT,
                base,
                pull.head.sha,
                command.bench,
                engine=settings.engines.ranges,
                max_processes=command.max_processes,
            )
        engine = settings.app.order_engine
        return OrderContent(COMPARE, base, pull.head.sha, command.bench, command.pairs, "", engine)

    def _find_merge_base(self, event: StoredGitHubEvent, bound: BoundRepository, pull: PullRequest) -> str:
        client = self.reporter.app.open_installation_client(
            event.payload.installation, [bound.repository_id], MERGE_BASE_PERMISSIONS
        )
        return client.find_merge_base(event.payload.repository, pull.base.sha, pull.head.sha)


def _find_who_labeled(client: GitHubClient, repository: str, number: int, label: str) -> str | None:
    """Who set a label last: whoever may triage sets labels, and only who may write orders."""
    logins = [
        event.actor.login
        for event in client.list_issue_events(repository, number)
        if event.event == "labeled" and event.actor and event.label and event.label.name == label
    ]
    return logins[-1] if logins else None


def _build_context(event: StoredGitHubEvent, project: Project, login: str, now: datetime) -> AuditContext:
    actor = Actor("user", f"{GITHUB_ACTOR}{login}", {project.id: ProjectRole.SHERIFF}, display_name=login)
    return AuditContext(actor, now, event.payload.delivery)


def _is_for_reader(error: PerfciError) -> bool:
    """Whether an error is final and about the order, in contrast to a failure of GitHub or the database."""
    if isinstance(error, GitHubError):
        return not error.is_transient
    return error.__cause__ is None
