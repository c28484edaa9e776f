"""Thin what is old, in steps short enough that uploads hardly wait."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from perfci.store import Store
from perfci.store.maintenance.retention import Thinned, thin
from perfci.store.projects import Project, projects
from perfci.verdicts.process_levels import process_level

STEP = 500
"""Results of one transaction: some 2,500 processes, which take about a tenth of a second."""


@dataclass(frozen=True, slots=True)
class Pruned:
    processes: int = 0
    samples: int = 0


def prune(store: Store, older_than: datetime, *, now: datetime, dry_run: bool = False) -> Pruned:
    """Keep of processes of histories that began before a moment only their levels; a dry run only counts."""
    with store.read() as tx:
        known = projects(tx)
    steps = [step for project in known for step in _steps(store, project, older_than, now, dry_run)]
    return Pruned(sum(step.processes for step in steps), sum(step.samples for step in steps))


def _steps(store: Store, project: Project, older_than: datetime, now: datetime, dry_run: bool) -> list[Thinned]:
    steps: list[Thinned] = []
    after = 0
    while not steps or after:
        steps.append(_step(store, project, older_than, now, after, dry_run))
        after = steps[-1].last
    return steps


def _step(store: Store, project: Project, older_than: datetime, now: datetime, after: int, dry_run: bool) -> Thinned:
    with store.begin() as tx:
        found = thin(tx, project.id, older_than, level_of=process_level, at=now, after=after, limit=STEP)
        if dry_run:
            tx.rollback()
    return found


class Retention:
    """What the judge does between two looks: prune once a day, by the clock it is told."""

    def __init__(self, store: Store, raw_days: int) -> None:
        self._store, self._raw_days = store, raw_days
        self._last: datetime | None = None

    def __call__(self, now: datetime) -> None:
        if not self._raw_days or (self._last is not None and abs(now - self._last) < timedelta(days=1)):
            return
        self._last = now
        prune(self._store, now - timedelta(days=self._raw_days), now=now)
