"""Group commit: write the jobs of many threads in one transaction, since a commit to disk costs the same."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError, IntegrityError, InternalError, OperationalError, PendingRollbackError
from sqlalchemy.orm import Session

from perfci.model import PerfciError
from perfci.store.dialects import is_retryable
from perfci.store.transactions import Store, StoreUnavailable

T = TypeVar("T")
ItemT = TypeVar("ItemT")

BatchFunction = Callable[[Session, Sequence[ItemT]], Sequence[T]]
"""Handles many items at once and returns their answers in order."""

MAX_QUEUED_JOBS = 512
"""Jobs that may wait: about five seconds of work; further callers get ``StoreBusy``."""

log = logging.getLogger("perfci.store")

MAX_ATTEMPTS = 3
"""Attempts to run a transaction that conflicts with others."""

MAX_WAIT_S = 5.0
"""How long a job waits for a database that somebody else holds: half of what clients wait for an answer."""


LOCKED = "another process holds the database, or it is too slow. Send it again later."


class StoreBusy(StoreUnavailable):
    """Too many jobs wait already, or one has waited too long."""


@dataclass(frozen=True, slots=True)
class _QueuedJob:
    run_batch: BatchFunction[Any, Any]
    item: Any
    future: Future[Any] = field(default_factory=Future)

    def begin(self) -> bool:
        """Begin the job unless its caller has given up; whether it has begun."""
        if self.future.cancelled():
            return False
        return self.future.running() or self.future.set_running_or_notify_cancel()


@dataclass(frozen=True, slots=True)
class _JobOutcome:
    """The answer or error of a job, before the shared commit."""

    value: Any = None
    error: Exception | None = None


class GroupCommitter:
    """One writing thread per process, started on first use, since threads do not survive a fork.

    A failing job rolls back only itself, by savepoints, and callers get their answers after the shared
    commit. At most ``max_jobs`` jobs share one; the first waits ``wait_ms`` for others. Nobody waits for
    longer than ``max_wait_s``, and nobody begins to once a transaction has taken that long.
    """

    def __init__(
        self,
        store: Store,
        *,
        max_jobs: int = 64,
        wait_ms: float = 2.0,
        max_wait_s: float = MAX_WAIT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._max_wait_s, self._clock = max_wait_s, clock
        self._writing_since: float | None = None
        self._max_jobs = max_jobs
        self._wait_s = wait_ms / 1000
        self._waiting: queue.Queue[_QueuedJob | None] = queue.Queue(MAX_QUEUED_JOBS)
        self._lock = threading.Lock()
        self._closed = False
        self._writer: threading.Thread | None = None

    def submit(self, job: Callable[[Session], T], *, max_wait_s: float | None = None) -> T:
        """Run a job in the next transaction; answer what it answered, or raise what it raised, once that is
        stored.
        """
        # A function of its own for each call: only jobs of one function are run together.
        return self.submit_batch_item(lambda tx, _: [job(tx)], None, max_wait_s=max_wait_s)

    def submit_batch_item(
        self, run_batch: BatchFunction[ItemT, T], item: ItemT, *, max_wait_s: float | None = None
    ) -> T:
        """Run a job together with waiting jobs of the same function; answer or raise as ``submit`` does."""
        job = _QueuedJob(run_batch, item)
        max_wait_s = self._max_wait_s if max_wait_s is None else max_wait_s
        since = self._writing_since
        patience_s = max_wait_s - (self._clock() - since if since is not None else 0.0)
        if patience_s <= 0:
            raise StoreBusy(f"Nothing could be stored for {max_wait_s:g} s: {LOCKED}")
        with self._lock:
            if self._closed:
                raise StoreUnavailable("The server is stopping: send it again in a moment.")
            if self._writer is None:
                self._writer = threading.Thread(target=self._run_writer, name="perfci-writer", daemon=True)
                self._writer.start()
            try:
                self._waiting.put_nowait(job)
            except queue.Full:
                raise StoreBusy(
                    f"{MAX_QUEUED_JOBS} uploads wait to be stored already: send it again later."
                ) from None
        wait([job.future], patience_s)
        if job.future.cancel():
            raise StoreBusy(f"It was not stored within {max_wait_s:g} s: {LOCKED}")
        if not job.future.done():
            raise StoreBusy(f"It was not stored within {max_wait_s:g} s, though it may still be: {LOCKED}")
        answer: T = job.future.result()
        return answer

    @property
    def is_stuck(self) -> bool:
        """Whether a transaction takes so long that nobody may wait for it."""
        since = self._writing_since
        return since is not None and self._clock() - since >= self._max_wait_s

    def close(self) -> None:
        """Store what waits and end the thread; nothing is taken any more."""
        with self._lock:
            closed, self._closed = self._closed, True
        if self._writer is None:
            return
        if not closed:
            self._waiting.put(None)
        self._writer.join()

    def _run_writer(self) -> None:
        """Commit the waiting jobs, batch by batch, until the committer is closed."""
        while (job := self._waiting.get()) is not None:
            batch, until = [job], time.monotonic() + self._wait_s
            while len(batch) < self._max_jobs:
                try:
                    job = self._waiting.get(timeout=max(0.0, until - time.monotonic()))
                except queue.Empty:
                    break
                if job is None:
                    self._waiting.put(None)  # for the outer loop, which ends with it
                    break
                batch.append(job)
            self._writing_since = self._clock()
            self._commit_batch(batch)
            self._writing_since = None

    def _commit_batch(self, batch: Sequence[_QueuedJob], attempt: int = 1) -> None:
        """Run a batch in one transaction and answer its jobs; a transaction that failed is run again."""
        in_a_job, committing = False, False
        outcomes: list[_JobOutcome] = []
        try:
            with self._store.begin() as tx:
                batch = [job for job in batch if job.begin()]
                in_a_job = True
                for run_batch, jobs in groupby(batch, key=lambda job: job.run_batch):
                    outcomes += self._run_jobs(tx, run_batch, [job.item for job in jobs])
                in_a_job, committing = False, True
        except Exception as error:
            cause = error.__cause__ if isinstance(error, PerfciError) else error
            lost = isinstance(cause, DBAPIError) and cause.connection_invalidated
            # Whether a commit that lost its connection stored anything is unknown: do not repeat it.
            if is_retryable(cause) and not (lost and committing) and attempt < MAX_ATTEMPTS:
                self._commit_batch(batch, attempt + 1)
            elif in_a_job and not lost and len(batch) > 1:
                # One job may have failed the transaction of all.
                for job in batch:
                    self._commit_batch([job])
            else:
                for job in batch:
                    if job.begin():
                        job.future.set_exception(_public_error(error))
            return
        for job, outcome in zip(batch, outcomes, strict=True):
            if outcome.error is None:
                job.future.set_result(outcome.value)
            else:
                job.future.set_exception(outcome.error)

    def _run_jobs(
        self, tx: Session, run_batch: BatchFunction[Any, Any], items: Sequence[Any], *, is_retry: bool = False
    ) -> list[_JobOutcome]:
        """Run jobs together, or one by one if that fails; the error of a single job is its outcome."""
        try:
            with self._store.savepoint(tx):
                return [_JobOutcome(answer) for answer in run_batch(tx, items)]
        except (OperationalError, InternalError):
            raise
        except Exception as error:
            if len(items) > 1:
                log.debug("%d jobs are done one by one: %r", len(items), error)
                return [outcome for item in items for outcome in self._run_jobs(tx, run_batch, [item])]
            if isinstance(error, IntegrityError) and not is_retry:
                # Another process added the row meanwhile, or the cached ids are stale: try once more.
                return self._run_jobs(tx, run_batch, items, is_retry=True)
            return [_JobOutcome(error=error)]


def _public_error(cause: Exception) -> Exception:
    """Convert an error for callers: temporary ones become ``StoreUnavailable``, others stay."""
    if isinstance(cause, PerfciError):
        return StoreUnavailable(str(cause))
    if isinstance(cause, DBAPIError):
        return StoreUnavailable(f"The database could not store it: {str(cause.orig).splitlines()[0]}.")
    if isinstance(cause, PendingRollbackError):
        return StoreUnavailable("The connection to the database was lost.")
    return cause
