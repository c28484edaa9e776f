"""The judge worker: process the outbox of uploads outside of the server, so that uploads stay fast."""

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
"""Work items of one evaluation: a burst of uploads touches the same histories."""

PeriodicJob = Callable[[datetime], object]

log = logging.getLogger("perfci.judge")


@dataclass
class JudgeWorker:
    """Evaluates uploads, one project after the other; of several such processes the lease lets one work.

    ``periodic_jobs`` run between evaluations and are called with the time. Cached segmentations live in
    this process only; what is not cached is computed again with the same result.
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
        """Process the due work of the project that waits longest; return the number of items."""
        if not self.lease.acquire_or_renew():
            return 0
        with self.store.read() as tx:
            due = outbox.load_due_work(tx, WORK_KINDS, MAX_BATCH, self.clock())
        if due:
            self._evaluate(due)
        return len(due)

    def _evaluate(self, work: Sequence[OutboxItem]) -> None:
        """Process all items together or, after a failure, one by one to isolate bad uploads."""
        try:
            self._evaluator.evaluate(work)
        except Exception as error:
            if isinstance(error, LeaseLost) or isinstance(error.__cause__, SQLAlchemyError):
                raise  # a failure of the lease or the database, not of the work
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
