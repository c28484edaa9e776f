"""What the judge process does for every project once a minute, whether anything was uploaded or not."""

from __future__ import annotations

from datetime import datetime, timedelta

from perfci.policies import StandardsOf
from perfci.service.incidents.lifecycle_sweep import attend
from perfci.service.missing_data.missing_data_monitor import Watch
from perfci.service.notify.enqueue_notifications import tell_new
from perfci.store import Store
from perfci.store.projects import projects

EVERY = timedelta(minutes=1)


class Chores:
    """Called as often as one likes; does its work when a minute went by on the clock it is told."""

    def __init__(self, store: Store, standards_of: StandardsOf) -> None:
        self._store = store
        self._standards_of = standards_of
        self._last: datetime | None = None
        self._watch = Watch()

    def __call__(self, now: datetime) -> None:
        if self._last is not None and timedelta() <= now - self._last < EVERY:
            return
        self._last = now
        with self._store.read() as tx:
            known = projects(tx)
        for project in known:
            with self._store.begin() as tx:
                self._watch(tx, project, now)
            attend(self._store, project, self._standards_of(project).policy, now)
            with self._store.begin() as tx:
                tell_new(tx, project, now)
