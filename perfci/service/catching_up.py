"""What GitHub did not tell is looked for: a delivery that was lost, or found nobody, is not repeated by itself."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby, takewhile

from sqlalchemy.exc import SQLAlchemyError

from perfci.auth.jobs import PULL_REQUEST
from perfci.github.app import App
from perfci.github.shapes import WorkflowRun
from perfci.model import PerfciError
from perfci.service.hearing import ENDED, is_bound_run
from perfci.store import Store, repositories, run_events
from perfci.store.repositories import Binding
from perfci.store.run_events import Told

EVERY = timedelta(minutes=15)
AGE = timedelta(days=3)
"""How old a run may be: for so long GitHub offers to deliver again, too."""

ON_ITS_WAY = timedelta(minutes=5)
"""A run that ended just now is still being told."""

log = logging.getLogger("perfci.github")


@dataclass(frozen=True, slots=True)
class CatchingUp:
    """Asks for the runs of bound repositories; what nobody heard of waits from then on as if GitHub had told it."""

    store: Store
    app: App

    def __call__(self, now: datetime) -> int:
        """How many runs were found; where GitHub does not answer, the next look finds them."""
        with self.store.read() as tx:
            bound = repositories.bindings(tx)
        of_each = groupby(bound, key=lambda one: one.repository.repository_id)
        return sum(self._of_repository(list(some), now) for _, some in of_each)

    def _of_repository(self, bound: Sequence[Binding], now: datetime) -> int:
        slug = bound[0].repository.slug
        try:
            return self._keep(self._missed(bound, now), now)
        except PerfciError as error:
            if isinstance(error.__cause__, SQLAlchemyError):
                raise  # of the database: no fault of the repository
            log.warning("what GitHub did not tell of %s is looked for again later: %s", slug, error)
            return 0

    def _missed(self, bound: Sequence[Binding], now: datetime) -> list[tuple[int, Told]]:
        """Runs that ended, and the projects that were never told of it; nothing where the App is not installed."""
        slug, number = bound[0].repository.slug, bound[0].repository.repository_id
        installation = self.app.installation(slug)
        if installation is None:
            return []
        client = self.app.client(installation, [number])
        listed = takewhile(lambda run: _is_after(run.created_at, now - AGE), client.ended_runs(slug, PULL_REQUEST))
        ended = [run for run in listed if not _is_after(run.updated_at, now - ON_ITS_WAY)]
        with self.store.read() as tx:
            return [
                (one.project_id, _told(run, installation))
                for run in ended
                for one in bound
                if is_bound_run(run, one.repository)
                and not run_events.is_heard(tx, one.project_id, run.id, ENDED, run.run_started_at)
            ]

    def _keep(self, missed: Sequence[tuple[int, Told]], now: datetime) -> int:
        if not missed:
            return 0
        with self.store.begin() as tx:
            kept = sum(run_events.add(tx, project_id, told, now) for project_id, told in missed)
        log.info("GitHub did not tell of %d runs of %s that ended", kept, missed[0][1].repository)
        return kept


def _is_after(at: datetime | None, then: datetime) -> bool:
    return at is not None and at > then


def _told(run: WorkflowRun, installation: int) -> Told:
    """As GitHub would have told it; a run that is started again is told again."""
    return Told(f"missed-{run.id}-{run.run_attempt}", installation, run.repository.full_name, run.id, ENDED)
