"""The judge worker: evaluate projects with new uploads outside of the server, so that uploads stay fast."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from perfci.history.comparisons.judge_pull_request_uploads import PullRequestUploads
from perfci.history.comparisons.judge_uploaded_pairs import UploadedPairs, save_verdicts_with_decisions
from perfci.history.load_series_points import refresh_series_points
from perfci.history.series_histories import SeriesHistories
from perfci.model import PerfciError
from perfci.project_policies import LoadPolicies
from perfci.service.gc_tuning import tune_gc
from perfci.service.incidents.due_transitions import apply_due_transitions
from perfci.service.incidents.evaluate_project import evaluate_project
from perfci.service.incidents.mute_benchmarks import mute_noisy_benchmarks
from perfci.service.incidents.reconcile_incidents import reconcile_incidents
from perfci.service.missing_data.missing_data_monitor import MissingDataMonitor
from perfci.service.notify.enqueue_notifications import enqueue_paged_incident_notifications
from perfci.service.worker.lease import JUDGE_LEASE, Lease, LeaseLost
from perfci.store import Store
from perfci.store.incidents import incident_store
from perfci.store.jobs import work_queue_and_leases
from perfci.store.jobs.work_queue_and_leases import OutboxItem
from perfci.store.projects import Project, find_project, load_projects, mark_projects_changed
from perfci.store.queries import judging_inputs
from perfci.store.queries.comparisons.pull_request_uploads import PullRequestHead, load_pull_request_heads
from perfci.verdicts.history.change_points_and_jumps import SegmentationCache
from perfci.verdicts.judging_policy import Policy

WORK_KINDS = ("judge", "judge_pr", "evaluate")

MAX_BATCH = 256
"""Work items of one evaluation: a burst of uploads touches the same histories."""

JOB_INTERVAL = timedelta(minutes=1)

PeriodicJob = Callable[[datetime], object]
ReportPullRequest = Callable[[Session, Project, PullRequestHead, datetime], object]

log = logging.getLogger("perfci.judge")


@dataclass
class JudgeWorker:
    """Evaluates uploads, one project after the other; of several such processes the lease lets one work.

    ``periodic_jobs`` run between evaluations and are called with the time. ``report_pull_request`` is
    called for each head of a pull request whose uploads were judged, with their verdicts. Cached
    segmentations live in this process only; what is not cached is computed again with the same result.
    """

    store: Store
    load_policies: LoadPolicies
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    periodic_jobs: Sequence[PeriodicJob] = ()
    report_pull_request: ReportPullRequest = field(default=lambda *_: None)
    lease: Lease = field(init=False)
    _segmentation_cache: SegmentationCache = field(init=False, default_factory=SegmentationCache)

    def __post_init__(self) -> None:
        self.lease = Lease(self.store, JUDGE_LEASE)

    def run(self, stop: threading.Event, interval_s: float = 1.0) -> None:
        """Work until ``stop`` is set; an unreachable database is retried.

        After each cycle the worker pauses for as long as the cycle took: uploads of a burst are batched,
        and at most half a processor is used.
        """
        with tune_gc():
            while not stop.is_set():
                began = self.clock()
                worked = self._run_cycle()
                took_s = (self.clock() - began).total_seconds()
                stop.wait(min(took_s, interval_s) if worked else interval_s)
        # With the database gone, the lease simply expires.
        with contextlib.suppress(PerfciError):
            self.lease.release()

    def _run_cycle(self) -> int:
        """Process due work and run periodic jobs; return the number of work items."""
        try:
            worked = self.run_once()
            if self.lease.acquire_or_renew():
                for task in self.periodic_jobs:
                    task(self.clock())
        except PerfciError as error:
            log.warning("%s", error)
            return 0
        return worked

    def drain(self) -> int | None:
        """Work until nothing is due; return the number of items, None if another process works."""
        if not self.lease.acquire_if_abandoned():
            return None
        done = 0
        while worked := self.run_once():
            done += worked
        if self.lease.acquire_or_renew():
            for task in self.periodic_jobs:
                task(self.clock())
        self.lease.release()
        return done

    def run_once(self) -> int:
        """Process the due work of the project that waits longest; return the number of items."""
        if not self.lease.acquire_or_renew():
            return 0
        with self.store.read() as tx:
            due = work_queue_and_leases.load_next_project_work(tx, WORK_KINDS, MAX_BATCH, self.clock())
        if due:
            self._evaluate(due)
        return len(due)

    def _evaluate(self, work: Sequence[OutboxItem]) -> None:
        """Process all items together or, after a failure, one by one to isolate bad uploads."""
        try:
            self._evaluate_project(work)
        except Exception as error:
            if isinstance(error, LeaseLost) or isinstance(error.__cause__, SQLAlchemyError):
                raise  # a failure of the lease or the database, not of the work
            if len(work) > 1:
                for item in work:
                    self._evaluate([item])
                return
            log.exception("work %s on %s failed", work[0].id, work[0].project)
            later = self.clock() + timedelta(minutes=2 ** work[0].attempts)
            with self.store.begin() as tx:
                work_queue_and_leases.postpone_work(
                    tx, work[0].id, f"{type(error).__name__}: {error}"[:2000], later
                )

    def _evaluate_project(self, work: Sequence[OutboxItem]) -> None:
        """Process the work of one project: read, compute without a transaction, write the results.

        Change points are stored before incidents are derived, because these read them from the store. The
        items are deleted last; after a crash before that they are repeated.
        """
        runs = [item.subject for item in work if item.kind == "judge"]
        sessions = dict.fromkeys(item.subject for item in work if item.kind == "judge_pr")
        with self.lease.keep_alive():
            with self.store.read() as tx:
                project = find_project(tx, work[0].project)
                assert project is not None  # a foreign key of the outbox
                histories = SeriesHistories.load(tx, judging_inputs.load_series_ids_of_runs(tx, runs))
                uploads = [UploadedPairs.load(tx, project.slug, uid) for uid in sessions]
                points = histories.derive_points(tx)
            policies = self.load_policies(project)
            changes = histories.find_change_points(policies.policy, self._segmentation_cache)
            verdicts = {pairs.uid: pairs.judge(policies.policy) for pairs in uploads}
            now = self.clock()
            with self.lease.begin_transaction() as tx:
                histories.save(tx, project.slug, changes, points)
                for uid, decisions in verdicts.items():
                    if decisions:
                        save_verdicts_with_decisions(tx, project.slug, uid, decisions, now)
            self._judge_pull_requests(project, list(sessions), policies.policy)
            with self.store.read() as tx:
                evaluation = evaluate_project(tx, project.slug, policies.policy, policies.history)
            reconcile_incidents(
                self.store, project, policies.policy, evaluation, self.clock(), self.lease.begin_transaction
            )
        with self.lease.begin_transaction() as tx:
            work_queue_and_leases.delete_work(tx, [item.id for item in work])
            mark_projects_changed(tx, [project.id])

    def _judge_pull_requests(self, project: Project, sessions: Sequence[str], policy: Policy) -> None:
        """Judge what pull requests uploaded against the main branch, whose change points are stored."""
        with self.store.read() as tx:
            heads = load_pull_request_heads(tx, sessions)
            uploads = {head: PullRequestUploads.load(tx, project.slug, head) for head in heads}
        for head, runs in uploads.items():
            decisions = runs.judge(policy) if runs else []
            now = self.clock()
            with self.lease.begin_transaction() as tx:
                if runs and decisions:
                    save_verdicts_with_decisions(tx, project.slug, runs.session, decisions, now)
                self.report_pull_request(tx, project, head, now)


class PeriodicJobs:
    """Stores points that do not hold, checks missing data, mutes noisy benchmarks, applies due transitions
    and enqueues notifications.

    At most once a minute.
    """

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
            refresh_series_points(self._store, project)
            with self._store.begin() as tx:
                self._missing_data_monitor(tx, project, now)
            mute_noisy_benchmarks(self._store, project, now)
            apply_due_transitions(self._store, project, self._load_policies(project).policy, now)
            with self._store.begin() as tx:
                if paged := incident_store.mark_unpaged_incidents_paged(tx, project.id, now):
                    enqueue_paged_incident_notifications(tx, project, paged, now)
