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
from perfci.policies import StandardsOf
from perfci.service.gc_tuning import collecting_rarely
from perfci.service.lease import Lease, LostLease
from perfci.service.worker.evaluate_project import Looking
from perfci.store import Store
from perfci.store.jobs import outbox
from perfci.store.jobs.outbox import Work
from perfci.verdicts.history.change_point_detection import Memory

LEASE = "judge"
KINDS = ("judge", "judge_pr", "look")

MOST_AT_ONCE = 256
"""Uploads that one look takes in: a burst of them touches the same histories."""

Meanwhile = Callable[[datetime], object]

log = logging.getLogger("perfci.judge")


@dataclass
class JudgeWorker:
    """Judges what was uploaded, one project after the other; of many such processes the lease lets one work.

    ``meanwhile`` are what else this process does between two looks, each called with the time. The memory of earlier
    looks is only in this process: whatever it forgets is computed again to the same result.
    """

    store: Store
    standards_of: StandardsOf
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    meanwhile: Sequence[Meanwhile] = ()
    lease: Lease = field(init=False)
    _looking: Looking = field(init=False)

    def __post_init__(self) -> None:
        self.lease = Lease(self.store, LEASE)
        self._looking = Looking(self.store, self.lease, self.standards_of, Memory(), self.clock)

    def run(self, stop: threading.Event, every_s: float = 1.0) -> None:
        """Work until told to stop; a database that cannot be reached now is asked again.

        After some work it rests for as long as that took: what arrives meanwhile is looked at together, so that in a
        burst a look costs each upload less, and half of a processor is all it ever takes.
        """
        with collecting_rarely():
            while not stop.is_set():
                began = self.clock()
                worked = self._turn()
                took_s = (self.clock() - began).total_seconds()
                stop.wait(min(took_s, every_s) if worked else every_s)
        with contextlib.suppress(PerfciError):  # a database that is gone gives the lease to whoever outwaits it
            self.lease.release()

    def _turn(self) -> int:
        """Work, and what else is to be done here; answer how much work that was."""
        try:
            worked = self.step()
            if self.lease.hold():
                for task in self.meanwhile:
                    task(self.clock())
        except PerfciError as error:
            log.warning("%s", error)
            return 0
        return worked

    def empty(self) -> int | None:
        """Work until nothing is due, and do what else is to be done; how much it was, None where another one works."""
        if not self.lease.outwait():
            return None
        done = 0
        while worked := self.step():
            done += worked
        if self.lease.hold():
            for task in self.meanwhile:
                task(self.clock())
        self.lease.release()
        return done

    def step(self) -> int:
        """Do the work that is due on the project that waits longest; answer how much that was."""
        if not self.lease.hold():
            return 0
        with self.store.read() as tx:
            due = outbox.take(tx, KINDS, MOST_AT_ONCE, self.clock())
        if due:
            self._try(due)
        return len(due)

    def _try(self, work: Sequence[Work]) -> None:
        """Do all of it at once, or where that fails each by itself, so that one bad upload holds up nobody else."""
        try:
            self._looking.look(work)
        except Exception as error:
            if isinstance(error, LostLease) or isinstance(error.__cause__, SQLAlchemyError):
                raise  # of the lease or the database: no fault of the work
            if len(work) > 1:
                for one in work:
                    self._try([one])
                return
            log.exception("work %s on %s failed", work[0].id, work[0].project)
            self._put_off(work[0], error)

    def _put_off(self, work: Work, error: Exception) -> None:
        later = self.clock() + timedelta(minutes=2**work.attempts)
        with self.store.begin() as tx:
            outbox.failed(tx, work.id, f"{type(error).__name__}: {error}"[:2000], later)
