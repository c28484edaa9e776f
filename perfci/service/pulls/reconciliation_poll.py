"""What GitHub did not tell is looked for: a delivery that was lost, or found nobody, is not repeated by itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from sqlalchemy.exc import SQLAlchemyError

from perfci.github.app_auth import App
from perfci.model import PerfciError
from perfci.service.pulls.missed_deliveries import LOOKS, Happened, Look, Place
from perfci.store import Store
from perfci.store.access import github_bindings
from perfci.store.access.github_bindings import Binding
from perfci.store.jobs import run_events
from perfci.store.jobs.run_events import Told

EVERY = timedelta(minutes=15)

log = logging.getLogger("perfci.github")


@dataclass(frozen=True, slots=True)
class CatchingUp:
    """Asks what became of bound repositories; what nobody heard of waits from then on as if GitHub had told it."""

    store: Store
    app: App

    def __call__(self, now: datetime) -> int:
        """How much was found; where GitHub does not answer, the next look finds it."""
        with self.store.read() as tx:
            bound = github_bindings.bindings(tx)
        of_each = groupby(bound, key=lambda one: one.repository.repository_id)
        return sum(self._of_repository(list(some), now) for _, some in of_each)

    def _of_repository(self, bound: Sequence[Binding], now: datetime) -> int:
        """Nothing where the App is not installed; what cannot be asked for holds up nothing else."""
        slug, number = bound[0].repository.slug, bound[0].repository.repository_id
        with _again_later(slug):
            installation = self.app.installation(slug)
            if installation is None:
                return 0
            place = Place(self.app.client(installation, [number]), slug, installation, now)
            return sum(self._found(what, look, place, bound) for what, look in LOOKS.items())
        return 0

    def _found(self, what: str, look: Look, place: Place, bound: Sequence[Binding]) -> int:
        with _again_later(place.slug):
            missed = self._unheard(list(look(place)), bound)
            if not missed:
                return 0
            with self.store.begin() as tx:
                kept = sum(run_events.add(tx, project_id, told, place.now) for project_id, told in missed)
            log.info("found in %s, of which GitHub did not tell: %s (%d)", place.slug, what, kept)
            return kept
        return 0

    def _unheard(self, happened: Sequence[Happened], bound: Sequence[Binding]) -> list[tuple[int, Told]]:
        """What was never told, for each project that it concerns."""
        with self.store.read() as tx:
            return [
                (one.project_id, it.told)
                for it in happened
                for one in bound
                if it.concerns(one.repository)
                and not run_events.is_heard(tx, one.project_id, it.told.number, it.told.action, it.at)
            ]


@contextmanager
def _again_later(slug: str) -> Iterator[None]:
    """What GitHub does not answer is said, and no more; what the database does not is no fault of the repository."""
    try:
        yield
    except PerfciError as error:
        if isinstance(error.__cause__, SQLAlchemyError):
            raise
        log.warning("what GitHub did not tell of %s is looked for again later: %s", slug, error)
