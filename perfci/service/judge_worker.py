"""What uploads promised is kept here, in a process of its own: a slow look at a history never holds up an upload."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session as Transaction

from perfci.config import HistoryTable
from perfci.model import ChangePoint, PerfciError, Series
from perfci.service import derived, uploaded_pairs
from perfci.service.derived import Histories
from perfci.service.incidents import Situation, situation
from perfci.service.leasing import Lease, LostLease
from perfci.service.syncing import sync
from perfci.service.uploaded_pairs import Decided, UploadedPairs
from perfci.store import Store, arrivals, outbox
from perfci.store.outbox import Work
from perfci.store.projects import Project, project, touch
from perfci.verdicts.history import Memory
from perfci.verdicts.policy import Policy

LEASE = "judge"
KINDS = ("judge", "judge_pr")

MOST_AT_ONCE = 256
"""Uploads that one look takes in: a burst of them touches the same histories."""

AFTER_JUDGING: tuple[Callable[[Transaction, Project, Situation, datetime], object], ...] = (sync,)
"""What hangs on a new look at a project: called in the transaction that forgets the work, so all of it happens once."""

Meanwhile = Callable[[datetime], object]

log = logging.getLogger("perfci.judge")


@dataclass(frozen=True, slots=True)
class _Read:
    """The work on one project, and all that has to be known to do it."""

    project: Project
    work: Sequence[Work]
    histories: Histories
    pairs: Sequence[UploadedPairs]


@dataclass
class JudgeWorker:
    """Judges what was uploaded, one project after the other; of many such processes the lease lets one work.

    ``meanwhile`` are what else this process does between two looks, each called with the time. The memory of earlier
    looks is only in this process: whatever it forgets is computed again to the same result.
    """

    store: Store
    policy_of: Callable[[Project], Policy]
    history_of: Callable[[Project], HistoryTable]
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    meanwhile: Sequence[Meanwhile] = ()
    lease: Lease = field(init=False)
    memory: Memory = field(default_factory=Memory)

    def __post_init__(self) -> None:
        self.lease = Lease(self.store, LEASE)

    def run(self, stop: threading.Event, every_s: float = 1.0) -> None:
        """Work until told to stop; a database that cannot be reached now is asked again."""
        while not stop.is_set():
            try:
                worked = self.step()
                if self.lease.hold():
                    for task in self.meanwhile:
                        task(self.clock())
            except PerfciError as error:
                log.warning("%s", error)
                worked = 0
            if not worked:
                stop.wait(every_s)
        self.lease.release()

    def empty(self) -> int:
        """Wait for the lease, then work until nothing is due; answer how much was done."""
        while not self.lease.hold():
            time.sleep(0.2)
        done = 0
        while worked := self.step():
            done += worked
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
            self._do(work)
        except Exception as error:
            if isinstance(error, LostLease) or isinstance(error.__cause__, SQLAlchemyError):
                raise  # of the lease or the database: no fault of the work
            if len(work) > 1:
                for one in work:
                    self._try([one])
                return
            log.exception("work %s on %s failed", work[0].id, work[0].project)
            self._put_off(work[0], error)

    def _do(self, work: Sequence[Work]) -> None:
        """Read, compute with no transaction open, write: twice, for incidents rest on the change points as stored."""
        with self.lease.beating():
            read = self._read(work)
            changes = read.histories.changes(self.policy_of(read.project), self.memory)
            decided = [(pairs, pairs.judged(self.policy_of(read.project))) for pairs in read.pairs]
            self._write(read, changes, decided)
            told = self._situation(read.project)
        self._finish(read, told)

    def _read(self, work: Sequence[Work]) -> _Read:
        runs = [one.subject for one in work if one.kind == "judge"]
        sessions = dict.fromkeys(one.subject for one in work if one.kind == "judge_pr")
        with self.store.read() as tx:
            found = project(tx, work[0].project)
            assert found is not None  # the outbox refers to it
            return _Read(
                found,
                work,
                Histories.of(tx, arrivals.series_of_runs(tx, runs)),
                [UploadedPairs.of(tx, found.slug, uid) for uid in sessions],
            )

    def _write(
        self,
        read: _Read,
        changes: dict[Series, list[ChangePoint]],
        decided: Sequence[tuple[UploadedPairs, Sequence[Decided]]],
    ) -> None:
        now = self.clock()
        with self.store.begin() as tx:
            self.lease.renewing(tx)
            derived.write(tx, read.project.slug, changes)
            for pairs, verdicts in decided:
                if verdicts:
                    uploaded_pairs.write(tx, read.project.slug, pairs.uid, verdicts, now)

    def _situation(self, of: Project) -> Situation:
        with self.store.read() as tx:
            return situation(tx, of.slug, self.policy_of(of), self.history_of(of))

    def _finish(self, read: _Read, told: Situation) -> None:
        """Tell those who hang on the look, and forget exactly the work that was read."""
        now = self.clock()
        with self.store.begin() as tx:
            self.lease.renewing(tx)
            for listener in AFTER_JUDGING:
                listener(tx, read.project, told, now)
            outbox.done(tx, [one.id for one in read.work])
            touch(tx, [read.project.id])

    def _put_off(self, work: Work, error: Exception) -> None:
        later = self.clock() + timedelta(minutes=2**work.attempts)
        with self.store.begin() as tx:
            outbox.failed(tx, work.id, f"{type(error).__name__}: {error}"[:2000], later)
