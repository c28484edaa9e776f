"""What the judge process does for every project once a minute, whether anything was uploaded or not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy.orm import Session as Transaction

from perfci.service.attending import attend
from perfci.service.notifying import tell_new
from perfci.service.silence import Watch
from perfci.store import Store
from perfci.store.projects import Project, projects

EVERY = timedelta(minutes=1)

Task = Callable[[Transaction, Project, datetime], object]

TASKS: tuple[Task, ...] = (attend, tell_new)
"""In this order, after the watch for what did not come; all of one project in one transaction."""


class Chores:
    """Called as often as one likes; does its work when a minute went by on the clock it is told."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last: datetime | None = None
        self._tasks: tuple[Task, ...] = (Watch(), *TASKS)

    def __call__(self, now: datetime) -> None:
        if self._last is not None and timedelta() <= now - self._last < EVERY:
            return
        self._last = now
        with self._store.read() as tx:
            known = projects(tx)
        for project in known:
            with self._store.begin() as tx:
                for task in self._tasks:
                    task(tx, project, now)
