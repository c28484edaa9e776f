"""What uploads promised is kept here, in a process of its own: a slow look at a history never holds up an upload."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError

from perfci.model import PerfciError
from perfci.policies import LoadPolicies
from perfci.service.gc_tuning import tune_gc
from perfci.service.lease import Lease, LeaseLost
from perfci.service.worker.evaluate_project import ProjectEvaluator
from perfci.store import Store
from perfci.store.jobs import outbox
from perfci.store.jobs.outbox import OutboxItem
from perfci.verdicts.history.change_point_detection import SegmentationCache

JUDGE_LEASE = "judge"
WORK_KINDS = ("judge", "judge_pr", "evaluate")

MAX_BATCH = 256
"""Uploads that one look takes in: a burst of them touches the same histories."""

PeriodicJob = Callable[[datetime], object]

log = logging.getLogger("perfci.judge")


@dataclass
class JudgeWorker:
    """Judges what was uploaded, one project after the other; of many such processes the lease lets one work.

    ``meanwhile`` are what else this process does between two looks, each called with the time. The memory of earlier
    looks is only in this process: whatever it forgets is computed again to the same result.
    """

    store: Store
    load_policies: LoadPolicies
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    periodic_jobs: Sequence[PeriodicJob] = ()
    lease: Lease = field(init=False)
    _evaluator: ProjectEvaluator = field(init=False)

    def __post_init__(self) -> None:
        self.lease = Lease(self.store, JUDGE_LEASE)
        self._evaluator = ProjectEvaluator(
            self.store, self.lease, self.load_policies, SegmentationCache(), self.clock
        )

    def run(self, stop: threading.Event, interval_s: float = 1.0) -> None:
        """Work until told to stop; a database that cannot be reached now is asked again.

        After some work it rests for as long as that took: what arrives meanwhile is looked at together, so that in a
        burst a look costs each upload less, and half of a processor is all it ever takes.
        """
        with tune_gc():
            while not stop.is_set():
                began = self.clock()
                worked = self._run_cycle()
                took_s = (self.clock() - began).total_seconds()
                stop.wait(min(took_s, interval_s) if worked else interval_s)
        with contextlib.suppress(
            PerfciError
        ):  # a database that is gone gives the lease to whoever outwaits it
            self.lease.release()

    def _run_cycle(self) -> int:
        """Work, and what else is to be done here; answer how much work that was."""
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
        """Work until nothing is due, and do what else is to be done; how much it was, None where another one works."""
        if not self.lease.acquire_when_free():
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
        """Do the work that is due on the project that waits longest; answer how much that was."""
        if not self.lease.acquire_or_renew():
            return 0
        with self.store.read() as tx:
            due = outbox.load_due_work(tx, WORK_KINDS, MAX_BATCH, self.clock())
        if due:
            self._evaluate(due)
        return len(due)

    def _evaluate(self, work: Sequence[OutboxItem]) -> None:
        """Do all of it at once, or where that fails each by itself, so that one bad upload holds up nobody else."""
        try:
            self._evaluator.evaluate(work)
        except Exception as error:
            if isinstance(error, LeaseLost) or isinstance(error.__cause__, SQLAlchemyError):
                raise  # of the lease or the database: no fault of the work
            if len(work) > 1:
                for item in work:
                    self._evaluate([item])
                return
            log.exception("work %s on %s failed", work[0].id, work[0].project)
            self._postpone(work[0], error)

    def _postpone(self, work: OutboxItem, error: Exception) -> None:
        later = self.clock() + timedelta(minutes=2**work.attempts)
        with self.store.begin() as tx:
            outbox.postpone_work(tx, work.id, f"{type(error).__name__}: {error}"[:2000], later)
