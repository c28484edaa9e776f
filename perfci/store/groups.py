"""Write what many ask for at once in one transaction: a commit to disk costs the same for one upload as for sixty."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError, IntegrityError, InternalError, OperationalError
from sqlalchemy.orm import Session

from perfci.model import PerfciError
from perfci.store.dialects import is_retryable
from perfci.store.engine import Store

T = TypeVar("T")

LONGEST_QUEUE = 512
"""Jobs that may wait: about five seconds of work, after which telling somebody to come back is kinder."""

RETRY_AFTER_S = 2.0

ATTEMPTS = 3
"""How often a transaction that met another one is run again before its jobs are sent away."""


class Unavailable(PerfciError):
    """The database could not store anything now; whoever asked may ask again after ``retry_after`` seconds."""

    retry_after = RETRY_AFTER_S


class Busy(Unavailable):
    """More waits already than can be stored soon."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    job: Callable[[Session], Any]
    future: Future[Any] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What came of a job whose transaction is not committed yet."""

    answer: Any = None
    error: Exception | None = None


class _Fault(Exception):
    """A transaction failed as a whole; ``blame`` says whether one of its jobs may be the reason."""

    def __init__(self, cause: Exception, *, again: bool, blame: bool) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.again = again
        self.blame = blame


class Group:
    """One writing thread of a process, made where it is used: a thread does not survive a fork.

    Each job runs in a savepoint of its own, so a bad one undoes only itself, and ``submit`` answers only after the
    commit they all share. ``most`` jobs share one; the first waits ``wait_ms`` for company.
    """

    def __init__(self, store: Store, *, most: int = 64, wait_ms: float = 2.0) -> None:
        self._store = store
        self._most = most
        self._wait_s = wait_ms / 1000
        self._waiting: queue.Queue[_Waiting | None] = queue.Queue(LONGEST_QUEUE)
        self._door = threading.Lock()
        self._closed = False
        self._writer = threading.Thread(target=self._write, name="perfci-writer", daemon=True)
        self._writer.start()

    def submit(self, job: Callable[[Session], T]) -> T:
        """Run a job in the next transaction; answer what it answered, or raise what it raised, once that is stored."""
        one = _Waiting(job)
        with self._door:
            if self._closed:
                raise Unavailable("The server is stopping: send it again in a moment.")
            try:
                self._waiting.put_nowait(one)
            except queue.Full:
                raise Busy(f"{LONGEST_QUEUE} uploads wait to be stored already: send it again later.") from None
        answer: T = one.future.result()
        return answer

    def close(self) -> None:
        """Store what waits and end the thread; nothing is taken any more."""
        with self._door:
            closed, self._closed = self._closed, True
        if not closed:
            self._waiting.put(None)
        self._writer.join()

    def _write(self) -> None:
        while batch := self._next():
            self._store_all(batch)

    def _next(self) -> list[_Waiting]:
        """The jobs of the next transaction; none at the end."""
        batch: list[_Waiting] = []
        until = 0.0
        while len(batch) < self._most:
            try:
                one = self._waiting.get(timeout=max(0.0, until - time.monotonic()) if batch else None)
            except queue.Empty:
                break
            if one is None:
                self._waiting.put(None)  # for the next round, which then has nothing to do
                break
            until = until or time.monotonic() + self._wait_s
            batch.append(one)
        return batch

    def _store_all(self, batch: Sequence[_Waiting]) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                outcomes = self._store_together(batch)
            except _Fault as fault:
                if fault.again and attempt < ATTEMPTS:
                    continue
                self._give_up(batch, fault)
            else:
                for one, outcome in zip(batch, outcomes, strict=True):
                    _tell(one.future, outcome)
            return

    def _give_up(self, batch: Sequence[_Waiting], fault: _Fault) -> None:
        """Try the jobs one by one where one of them may have spoilt it for all; else send them away."""
        if fault.blame and len(batch) > 1:
            for one in batch:
                self._store_all([one])
            return
        for one in batch:
            one.future.set_exception(_told(fault.cause))

    def _store_together(self, batch: Sequence[_Waiting]) -> list[_Outcome]:
        """One transaction; whatever stops it as a whole is a fault."""
        in_a_job, committing = False, False
        try:
            with self._store.begin() as tx:
                in_a_job = True
                outcomes = [self._run(tx, one.job) for one in batch]
                in_a_job, committing = False, True
        except Exception as error:
            cause = error.__cause__ if isinstance(error, PerfciError) else error
            lost = isinstance(cause, DBAPIError) and cause.connection_invalidated
            again = is_retryable(cause) and not (lost and committing)  # lost in a commit: nobody knows what is stored
            raise _Fault(error, again=again, blame=in_a_job and not lost) from error
        return outcomes

    def _run(self, tx: Session, job: Callable[[Session], Any]) -> _Outcome:
        try:
            try:
                return self._run_once(tx, job)
            except IntegrityError:
                return self._run_once(tx, job)  # another process added the same row, or the ids it knew are stale
        except (OperationalError, InternalError):
            raise
        except Exception as error:
            return _Outcome(error=error)

    def _run_once(self, tx: Session, job: Callable[[Session], Any]) -> _Outcome:
        with self._store.savepoint(tx):
            return _Outcome(answer=job(tx))


def _tell(future: Future[Any], outcome: _Outcome) -> None:
    if outcome.error is None:
        future.set_result(outcome.answer)
    else:
        future.set_exception(outcome.error)


def _told(cause: Exception) -> Exception:
    """How those who wait learn of a fault: one that may pass, or a mistake of ours as it is."""
    if isinstance(cause, PerfciError):
        return Unavailable(str(cause))
    if isinstance(cause, DBAPIError):
        return Unavailable(f"The database could not store it: {str(cause.orig).splitlines()[0]}.")
    return cause
