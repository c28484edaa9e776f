"""Write what many ask for at once in one transaction: a commit to disk costs the same for one upload as for sixty."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError, IntegrityError, InternalError, OperationalError, PendingRollbackError
from sqlalchemy.orm import Session

from perfci.model import PerfciError
from perfci.store.dialects import is_retryable
from perfci.store.engine import Store

T = TypeVar("T")
What = TypeVar("What")

Together = Callable[[Session, Sequence[What]], Sequence[T]]
"""Does for many what was asked of each, and answers each in their order; it does so for one as well."""

LONGEST_QUEUE = 512
"""Jobs that may wait: about five seconds of work, after which telling somebody to come back is kinder."""

log = logging.getLogger("perfci.store")

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
    together: Together[Any, Any]
    what: Any
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

    A bad job undoes only itself, by savepoints, and whoever submitted one is answered only after the commit they all
    share. ``most`` jobs share one; the first waits ``wait_ms`` for company.
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
        answer: T = self.submit_to(_by_itself, job)
        return answer

    def submit_to(self, together: Together[What, T], what: What) -> T:
        """The same for what costs less when it is done together with others of its kind that wait as well."""
        one = _Waiting(together, what)
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
                alike = groupby(batch, key=lambda one: one.together)
                outcomes = [
                    outcome for how, some in alike for outcome in self._run_all(tx, how, [one.what for one in some])
                ]
                in_a_job, committing = False, True
        except Exception as error:
            cause = error.__cause__ if isinstance(error, PerfciError) else error
            lost = isinstance(cause, DBAPIError) and cause.connection_invalidated
            again = is_retryable(cause) and not (lost and committing)  # lost in a commit: nobody knows what is stored
            raise _Fault(error, again=again, blame=in_a_job and not lost) from error
        return outcomes

    def _run_all(self, tx: Session, together: Together[Any, Any], whats: Sequence[Any]) -> list[_Outcome]:
        """All at once, or each by itself where that fails: one of them may be the reason."""
        if len(whats) > 1 and together is not _by_itself:
            try:
                return self._run_once(tx, together, whats)
            except (OperationalError, InternalError):
                raise
            except Exception as error:
                log.debug("%d jobs are done one by one: %r", len(whats), error)
        return [self._run(tx, together, what) for what in whats]

    def _run(self, tx: Session, together: Together[Any, Any], what: Any) -> _Outcome:
        try:
            try:
                [outcome] = self._run_once(tx, together, [what])
            except IntegrityError:
                [outcome] = self._run_once(tx, together, [what])  # another process added the row, or its ids are stale
        except (OperationalError, InternalError):
            raise
        except Exception as error:
            return _Outcome(error=error)
        return outcome

    def _run_once(self, tx: Session, together: Together[Any, Any], whats: Sequence[Any]) -> list[_Outcome]:
        with self._store.savepoint(tx):
            return [_Outcome(answer) for answer in together(tx, whats)]


def _by_itself(tx: Session, jobs: Sequence[Callable[[Session], Any]]) -> list[Any]:
    return [job(tx) for job in jobs]


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
    if isinstance(cause, PendingRollbackError):
        return Unavailable("The connection to the database was lost.")
    return cause
