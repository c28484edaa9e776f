"""The engine that carries out orders on GitHub: it starts the bound workflow, and follows it to its end."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError

from perfci.github.app_auth import DISPATCH_PERMISSIONS, PERMISSIONS
from perfci.github.client import GitHubClient
from perfci.github.errors import GitHubError
from perfci.github.order_run import ORDER_RUN_TITLE
from perfci.github.payloads import WorkflowRun
from perfci.model import PerfciError
from perfci.service.orders.carry_out_orders import claim_order, fail_order, heartbeat_order
from perfci.service.orders.check_order_content import COMPARE, GITHUB_ENGINE
from perfci.service.pulls.answer_order import OrderAnswerer
from perfci.service.pulls.webhook_receiver import is_bound_workflow_run
from perfci.store.access.github_bindings import BoundRepository, find_repository_of_project
from perfci.store.column_conversions import hash_values
from perfci.store.jobs.measurement_orders import (
    CANCELLED,
    DISPATCHED,
    MAX_ORDER_ATTEMPTS,
    QUEUED,
    RUNNING,
    MeasurementOrder,
    find_order,
    load_open_orders,
    mark_order_running,
    record_external_run,
    requeue_order,
)
from perfci.store.projects import Project, find_project

FOLLOW_INTERVAL = timedelta(minutes=1)
"""How often a run is asked for: GitHub sends its events as well, and may lose them."""

RETRY_INTERVAL = timedelta(seconds=30)
"""The wait after a failure, within the lease of an order."""

START_TIME = timedelta(minutes=2)
"""How long a run that was asked for may take to appear before it is asked for again."""

MAX_STARTS = 3
"""How often a run is asked for that does not appear."""

ONLY_COMPARISONS = (
    "GitHub's runners compare two commits. For the history, start perf.yml with `since`, or order it of a "
    "worker of your own."
)
NOT_BOUND = "The project is bound to no workflow of its own repository: `perfci project bind` names one."
NOT_INSTALLED = "The GitHub App of this server is not installed for {}."
NOT_STARTED = f"GitHub took the order {MAX_STARTS} times and started no run of {{}}."
LOST = "The run {} ended as {} and left no results."
GONE = "The run {} is gone."

log = logging.getLogger("perfci.github")


@dataclass(frozen=True, slots=True)
class OrderedRepository:
    """Where an order is carried out: its project, and the repository and the workflow that it is bound to."""

    project: Project
    bound: BoundRepository
    installation: int

    @property
    def slug(self) -> str:
        return self.bound.slug

    @property
    def workflow(self) -> str:
        """The name of the workflow file, by which GitHub's API knows it."""
        return self.bound.workflow.rpartition("/")[2]


@dataclass(slots=True)
class _Start:
    """A run that was asked for and has not appeared yet."""

    at: datetime
    count: int = 0


class OrderImpossible(PerfciError):
    """An order that this engine can never carry out."""


@dataclass
class GitHubOrderEngine:
    """Carries out the orders of all bound repositories, one step of each at a time, under one lease.

    Everything that matters is in the database: an engine that begins anew finds the runs that were started
    by the names that they got.
    """

    answerer: OrderAnswerer
    _holder: str = field(default_factory=socket.gethostname)
    _due: dict[int, datetime] = field(default_factory=dict)
    _starts: dict[int, _Start] = field(default_factory=dict)
    _followed: dict[int, MeasurementOrder] = field(default_factory=dict)

    def __call__(self, now: datetime) -> int:
        """Do what is due; return how many orders went a step further."""
        store = self.answerer.store
        with store.read() as tx:
            orders = load_open_orders(tx, GITHUB_ENGINE)
        self._cancel_runs_of_closed_orders(orders)
        if any(order.state == QUEUED or _is_lease_over(order, now) for order in orders):
            with store.begin() as tx:
                claimed = claim_order(tx, GITHUB_ENGINE, self._holder, now, state=DISPATCHED)
            if claimed is not None:
                self._starts.pop(claimed.id, None)
                return 1 + self._take_step(claimed, now)
        return sum(self._take_step(order, now) for order in orders if order.state in (DISPATCHED, RUNNING))

    def wake(self) -> None:
        """Let everything be due: GitHub sent an event about the run of an order."""
        self._due.clear()

    def _take_step(self, order: MeasurementOrder, now: datetime) -> int:
        if self._due.get(order.id, now) > now:
            return 0
        self._due[order.id] = now + (FOLLOW_INTERVAL if order.external_run else RETRY_INTERVAL)
        with self._guarded(order, now) as outcome:
            place = self._find_place(order)
            client = self._open_client(place)
            if order.lease_ends_at is None:
                outcome.steps = self._follow(order, place, client, now)
            else:
                outcome.steps = self._start(order, place, client, now)
        return outcome.steps

    @contextmanager
    def _guarded(self, order: MeasurementOrder, now: datetime) -> Iterator[_Outcome]:
        """Fail an order that is impossible; log a failure that may pass, and try again later."""
        outcome = _Outcome()
        try:
            yield outcome
        except PerfciError as error:
            if isinstance(error.__cause__, SQLAlchemyError):
                raise
            is_final = isinstance(error, OrderImpossible)
            is_final |= isinstance(error, GitHubError) and not error.is_transient
            log.warning("order %d of %s: %s", order.id, order.project, error)
            if is_final:
                with self.answerer.store.begin() as tx:
                    outcome.steps = int(fail_order(tx, order, now, str(error)))
            else:
                self._due[order.id] = now + RETRY_INTERVAL
                self._keep(order, now)

    def _keep(self, order: MeasurementOrder, now: datetime) -> None:
        if order.lease_ends_at is not None:
            with self.answerer.store.begin() as tx:
                heartbeat_order(tx, order.id, order.lease_token, now)

    def _start(
        self, order: MeasurementOrder, place: OrderedRepository, client: GitHubClient, now: datetime
    ) -> int:
        """Find the run of an order, or ask for one, unless it was asked for a moment ago."""
        title = format_run_title(order)
        earlier = int(order.external_run or 0)
        runs = [
            run
            for run in client.list_newest_dispatched_runs(place.slug, place.workflow)
            if run.display_title == title and run.id > earlier and is_bound_workflow_run(run, place.bound)
        ]
        if runs:
            run = min(runs, key=lambda item: item.id)
            with self.answerer.store.begin() as tx:
                is_held = record_external_run(tx, order.id, order.lease_token, str(run.id), run.html_url)
            self._due.pop(order.id, None)
            return int(is_held)
        self._keep(order, now)
        start = self._starts.setdefault(order.id, _Start(now))
        if start.count and now - start.at < START_TIME:
            return 0
        if start.count >= MAX_STARTS:
            raise OrderImpossible(NOT_STARTED.format(place.workflow))
        inputs = _build_inputs(order)
        ref = self._find_ref(order, place, client)
        start.at, start.count = now, start.count + 1
        sender = self._open_client(place, dispatches=True)
        sender.dispatch_workflow(place.slug, place.workflow, ref, inputs)
        return 1

    def _find_ref(self, order: MeasurementOrder, place: OrderedRepository, client: GitHubClient) -> str:
        """The branch whose workflow runs: what nobody has merged runs as its own branch, never as main.

        A run of the default branch may write what later runs of it trust, such as caches.
        """
        numbers = [request.pull_number for request in order.requests if request.pull_number is not None]
        for number in dict.fromkeys(numbers):
            pull = client.get_pull(place.slug, number)
            is_ours = pull.head.repo is not None and pull.head.repo.id == place.bound.repository_id
            if pull.state == "open" and is_ours and pull.head.sha == order.content.head_sha:
                return pull.head.ref
        return client.get_repository(place.slug).default_branch

    def _follow(
        self, order: MeasurementOrder, place: OrderedRepository, client: GitHubClient, now: datetime
    ) -> int:
        self._followed[order.id] = order
        run = _fetch_run(client, place, order)
        if run is None:
            return self._lose(order, GONE.format(order.external_run), now)
        if run.status != "completed":
            if run.status != "in_progress" or order.state == RUNNING:
                return 0
            with self.answerer.store.begin() as tx:
                return int(mark_order_running(tx, order))
        if self.answerer.answer(client, place.project, order, run, now):
            return 1
        if run.conclusion == "cancelled":
            return self.answerer.cancel(order, run, now)
        return self._lose(order, LOST.format(run.html_url, run.conclusion or "nothing"), now)

    def _lose(self, order: MeasurementOrder, problem: str, now: datetime) -> int:
        """Start a lost run again, as often as an order may be attempted."""
        log.warning("order %d of %s: %s", order.id, order.project, problem)
        self._due.pop(order.id, None)
        with self.answerer.store.begin() as tx:
            if order.attempts < MAX_ORDER_ATTEMPTS:
                return int(requeue_order(tx, order))
            return int(fail_order(tx, order, now, f"{problem} It was attempted {order.attempts} times."))

    def _cancel_runs_of_closed_orders(self, orders: list[MeasurementOrder]) -> None:
        """Cancel the runs of orders that people cancelled: nobody waits for them any more."""
        still = {order.id for order in orders}
        for order in [order for order in self._followed.values() if order.id not in still]:
            del self._followed[order.id]
            self._due.pop(order.id, None)
            with self.answerer.store.read() as tx:
                closed = find_order(tx, order.project_id, order.id)
            if closed is None or closed.state != CANCELLED:
                continue
            try:
                place = self._find_place(order)
                self._open_client(place, dispatches=True).cancel_workflow_run(
                    place.slug, int(order.external_run)
                )
            except PerfciError as error:  # such as one that is over already: nothing is lost by it
                log.info("the run of order %d goes on: %s", order.id, error)

    def _find_place(self, order: MeasurementOrder) -> OrderedRepository:
        with self.answerer.store.read() as tx:
            project = find_project(tx, order.project)
            bound = find_repository_of_project(tx, order.project_id)
        if order.content.kind != COMPARE:
            raise OrderImpossible(ONLY_COMPARISONS)
        if project is None or bound is None or not bound.workflow.startswith(".github/workflows/"):
            raise OrderImpossible(NOT_BOUND)
        installation = self.answerer.app.find_installation(bound.slug)
        if installation is None:
            raise OrderImpossible(NOT_INSTALLED.format(bound.slug))
        return OrderedRepository(project, bound, installation)

    def _open_client(self, place: OrderedRepository, *, dispatches: bool = False) -> GitHubClient:
        permissions = DISPATCH_PERMISSIONS if dispatches else PERMISSIONS
        return self.answerer.app.open_installation_client(
            place.installation, [place.bound.repository_id], permissions
        )


@dataclass(slots=True)
class _Outcome:
    steps: int = 0


def format_run_title(order: MeasurementOrder) -> str:
    """Format the name of the run of an order, which that of no other server has."""
    return ORDER_RUN_TITLE.format(format_order_key(order))


def format_order_key(order: MeasurementOrder) -> str:
    """Format the input that names an order: its number, and a hash of what only this server knows of it."""
    return f"{order.id}-{hash_values(order.project_id, order.id, order.created_at.isoformat())[:8]}"


def _build_inputs(order: MeasurementOrder) -> dict[str, str]:
    content = order.content
    return {
        "order": format_order_key(order),
        "base": content.base_sha or "",
        "head": content.head_sha,
        "bench": content.bench,
        "pairs": "" if content.pairs is None else str(content.pairs),
        "suite": content.suite,
    }


def _fetch_run(client: GitHubClient, place: OrderedRepository, order: MeasurementOrder) -> WorkflowRun | None:
    try:
        return client.get_workflow_run(place.slug, int(order.external_run))
    except GitHubError as error:
        if error.status != 404:
            raise
        return None


def _is_lease_over(order: MeasurementOrder, now: datetime) -> bool:
    return order.lease_ends_at is not None and order.lease_ends_at < now
