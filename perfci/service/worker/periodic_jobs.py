"""Periodic jobs of the judge worker, once a minute for every project."""

from __future__ import annotations

from datetime import datetime, timedelta

from perfci.policies import LoadPolicies
from perfci.service.incidents.lifecycle_sweep import run_lifecycle_sweep
from perfci.service.missing_data.missing_data_monitor import MissingDataMonitor
from perfci.service.notify.enqueue_notifications import enqueue_new_incidents
from perfci.store import Store
from perfci.store.projects import load_projects

JOB_INTERVAL = timedelta(minutes=1)


class PeriodicJobs:
    """Checks missing data, runs the lifecycle sweep and enqueues notifications; at most once a minute."""

    def __init__(self, store: Store, load_policies: LoadPolicies) -> None:
        self._store = store
        self._load_policies = load_policies
        self._last: datetime | None = None
        self._missing_data_monitor = MissingDataMonitor()

    def __call__(self, now: datetime) -> None:
        if self._last is not None and timedelta() <= now - self._last < JOB_INTERVAL:
            return
        self._last = now
        with self._store.read() as tx:
            projects = load_projects(tx)
        for project in projects:
            with self._store.begin() as tx:
                self._missing_data_monitor(tx, project, now)
            run_lifecycle_sweep(self._store, project, self._load_policies(project).policy, now)
            with self._store.begin() as tx:
                enqueue_new_incidents(tx, project, now)
