"""Prune raw samples of old processes and files of old profiles, in short transactions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from perfci.store import Store
from perfci.store.explanations import delete_old_profile_files
from perfci.store.maintenance.reduce_old_samples import ReducedSamples, reduce_old_samples
from perfci.store.projects import Project, load_projects
from perfci.verdicts.process_levels import process_level

BATCH_SIZE = 500
"""Results per transaction: about 2,500 processes, which take a tenth of a second."""


@dataclass(frozen=True, slots=True)
class PruneCounts:
    """Processes pruned, samples deleted, and files of profiles deleted."""

    processes: int = 0
    samples: int = 0
    profile_files: int = 0


def prune_raw_samples(
    store: Store, older_than: datetime, *, now: datetime, dry_run: bool = False
) -> PruneCounts:
    """Reduce processes that started before ``older_than`` to their levels, and delete the files of profiles
    of that time; a dry run only counts.
    """
    with store.read() as tx:
        projects = load_projects(tx)
    steps = [
        step for project in projects for step in _prune_project(store, project, older_than, now, dry_run)
    ]
    with store.begin() as tx:
        files = delete_old_profile_files(tx, older_than)
        if dry_run:
            tx.rollback()
    return PruneCounts(sum(step.processes for step in steps), sum(step.samples for step in steps), files)


def _prune_project(
    store: Store, project: Project, older_than: datetime, now: datetime, dry_run: bool
) -> list[ReducedSamples]:
    steps: list[ReducedSamples] = []
    after = 0
    while not steps or after:
        with store.begin() as tx:
            reduced = reduce_old_samples(
                tx, project.id, older_than, compute_level=process_level, at=now, after=after, limit=BATCH_SIZE
            )
            if dry_run:
                tx.rollback()
        steps.append(reduced)
        after = reduced.last_result_id
    return steps


class SamplePruningJob:
    """Periodic job of the judge worker that prunes once a day."""

    def __init__(self, store: Store, raw_days: int) -> None:
        self._store, self._raw_days = store, raw_days
        self._last: datetime | None = None

    def __call__(self, now: datetime) -> None:
        if not self._raw_days or (self._last is not None and abs(now - self._last) < timedelta(days=1)):
            return
        self._last = now
        prune_raw_samples(self._store, now - timedelta(days=self._raw_days), now=now)
