"""Show on pull requests how far their orders are, whoever carries them out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError

from perfci.model import PerfciError
from perfci.service.pulls.job_trigger_event import PullRef
from perfci.service.pulls.pull_reporter import PullReporter
from perfci.store.access.github_bindings import find_repository_of_project
from perfci.store.jobs.measurement_orders import (
    MeasurementOrder,
    list_orders_of_pull,
    load_ordered_pulls,
)
from perfci.store.projects import find_project

PROGRESS_INTERVAL = timedelta(seconds=30)
"""The shortest time between two edits of a comment that change a number only."""

RECENTLY_CLOSED = timedelta(hours=1)
"""Orders that were closed within this time are shown as such, should this process have begun anew."""

Progress = Sequence[tuple[object, ...]]


@dataclass(slots=True)
class _Shown:
    """What a comment shows, and when it was written or is to be tried again."""

    states: Progress
    progress: Progress
    at: datetime


@dataclass
class OrderProgressWriter:
    """Writes the lines of orders: at once where a state changes, else every half minute at most."""

    reporter: PullReporter
    _shown: dict[tuple[int, int], _Shown] = field(default_factory=dict)

    def __call__(self, now: datetime) -> int:
        """Bring the comments of all pull requests with orders up to date; return how many were edited."""
        with self.reporter.store.read() as tx:
            pulls = load_ordered_pulls(tx, now - RECENTLY_CLOSED)
        for gone in self._shown.keys() - set(pulls):
            del self._shown[gone]
        return sum(self._update(project_id, number, now) for project_id, number in pulls)

    def _update(self, project_id: int, number: int, now: datetime) -> int:
        with self.reporter.store.read() as tx:
            orders = list_orders_of_pull(tx, project_id, number)
        states = [(order.id, order.state, order.external_url, len(order.requests)) for order in orders]
        progress = [(order.id, order.progress) for order in orders]
        shown = self._shown.get((project_id, number))
        is_known = shown is not None and states == shown.states
        if shown and is_known and (progress == shown.progress or now - shown.at < PROGRESS_INTERVAL):
            return 0
        self._shown[project_id, number] = _Shown(states, progress, now)
        try:
            return int(self._write(orders, number))
        except PerfciError as error:
            if isinstance(error.__cause__, SQLAlchemyError):
                raise
            log.warning("the orders of #%d are not shown, will retry: %s", number, error)
            # Known by none of its states, it is written again when the interval is over.
            self._shown[project_id, number] = _Shown(states, [], now)
            return 0

    def _write(self, orders: Sequence[MeasurementOrder], number: int) -> bool:
        reporter, order = self.reporter, orders[0]
        with reporter.store.read() as tx:
            project = find_project(tx, order.project)
            bound = find_repository_of_project(tx, order.project_id)
        installation = reporter.app.find_installation(bound.slug) if bound else None
        if project is None or bound is None or installation is None:
            return False
        client = reporter.app.open_installation_client(installation, [bound.repository_id])
        pull = client.get_pull(bound.slug, number)
        if pull.state != "open":
            return False
        place = PullRef(bound.slug, number, pull.base.sha, pull.head.sha)
        return reporter.write_order_lines(client, place, project)


log = logging.getLogger("perfci.github")
