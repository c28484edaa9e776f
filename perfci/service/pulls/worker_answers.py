"""Answers of orders that a worker of one's own measured: the verdicts stored here of its sessions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy.orm import Session as Transaction

from perfci.model import Commit, Series, Verdict
from perfci.report.pulls.comparison_findings import Findings, compute_verdict_bars
from perfci.service.orders.check_order_content import COMPARE, LOCAL_ENGINE
from perfci.service.pulls.results_artifact_files import PullResults
from perfci.service.pulls.webhook_receiver import ANSWERED_ORDER
from perfci.service.uploads.receive_runs import SESSION_SUFFIX
from perfci.store import Store
from perfci.store.access.github_bindings import find_repository_of_project
from perfci.store.jobs.github_events import GitHubEventPayload, add_github_event
from perfci.store.jobs.measurement_orders import (
    DONE,
    MeasurementOrder,
    list_orders_of_pull,
    load_ordered_pulls,
)
from perfci.store.queries.comparisons.pull_request_uploads import is_judging_pending
from perfci.store.queries.series_commits_machines import load_commits_by_sha
from perfci.store.verdicts_and_change_points import load_verdict_records
from perfci.verdicts.judging_policy import Policy

RECENTLY_CLOSED = timedelta(days=1)
"""Orders that were closed within this time are reported, should nothing have run meanwhile."""


@dataclass
class WorkerAnswerReporter:
    """Has what workers measured reported on the pull requests that asked for it, once it is judged here."""

    store: Store
    _reported: set[int] = field(default_factory=set)

    def __call__(self, now: datetime) -> int:
        """Enqueue the reports that are due; return how many orders they are of."""
        with self.store.read() as tx:
            answered = [
                (number, order)
                for project_id, number in load_ordered_pulls(tx, now - RECENTLY_CLOSED)
                for order in list_orders_of_pull(tx, project_id, number)
                if order.id not in self._reported and is_worker_answer(order) and _is_judged(tx, order)
            ]
        if not answered:
            return 0
        with self.store.begin() as tx:
            added = sum(_enqueue_report(tx, order, number, now) for number, order in answered)
        self._reported.update(order.id for _, order in answered)
        return added


def is_worker_answer(order: MeasurementOrder) -> bool:
    """Whether a worker has compared the commits of an order."""
    content = order.content
    return order.state == DONE and content.engine == LOCAL_ENGINE and content.kind == COMPARE


def load_worker_answer(tx: Transaction, order: MeasurementOrder, policy: Policy) -> PullResults | None:
    """Load the answer of an order; None where a worker has none, or it waits to be judged."""
    if not is_worker_answer(order) or not _is_judged(tx, order):
        return None
    base, head = order.content.base_sha or "", order.content.head_sha
    verdicts = _load_verdicts(tx, order)
    if not verdicts:
        return None
    commits = load_commits_by_sha(tx, order.project, [base, head])
    findings = Findings(
        verdicts,
        commits.get(base, Commit(base)),
        commits.get(head, Commit(head)),
        bars=compute_verdict_bars(verdicts, policy),
        strict=policy.default.strict,
    )
    return PullResults(order.project, findings.base, findings.head, findings)


def _load_verdicts(tx: Transaction, order: MeasurementOrder) -> list[Verdict]:
    """The newest verdict of each series on the sessions of an order, superseded since or not."""
    sessions, content = _list_sessions(order), order.content
    records = load_verdict_records(
        tx, order.project, base=content.base_sha, head=content.head_sha, current_only=False
    )
    newest: dict[Series, Verdict] = {}
    for record in records:
        if record.session_uid in sessions:
            newest.setdefault(record.verdict.series, record.verdict)
    return list(newest.values())


def _list_sessions(order: MeasurementOrder) -> set[str]:
    """The sessions as the worker names them, and as the server does where another project has the name."""
    named: list[str] = (order.result or {}).get("sessions", [])
    return {*named, *(name + SESSION_SUFFIX.format(order.project) for name in named)}


def _is_judged(tx: Transaction, order: MeasurementOrder) -> bool:
    return not is_judging_pending(tx, order.project, _list_sessions(order))


def _enqueue_report(tx: Transaction, order: MeasurementOrder, number: int, at: datetime) -> bool:
    bound = find_repository_of_project(tx, order.project_id)
    if bound is None:
        return False
    payload = GitHubEventPayload(f"order-{order.id}-{number}", 0, bound.slug, number, ANSWERED_ORDER)
    return add_github_event(tx, order.project_id, payload, at)
