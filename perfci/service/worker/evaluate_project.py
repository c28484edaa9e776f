"""One look at a project with new uploads: read, compute with no transaction open, write what follows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.history import uploaded_pairs
from perfci.history.derive_change_points import Histories
from perfci.history.uploaded_pairs import Decided, UploadedPairs
from perfci.model import ChangePoint, Series
from perfci.policies import Standards, StandardsOf
from perfci.service.incidents.derive_incidents import Situation, situation
from perfci.service.incidents.reconcile_incidents import sync
from perfci.service.lease import Lease
from perfci.store import Store
from perfci.store.jobs import outbox
from perfci.store.jobs.outbox import Work
from perfci.store.projects import Project, project, touch
from perfci.store.queries import run_lookup
from perfci.store.queries.result_summaries import set_levels
from perfci.store.writes.ingest import keep_change_points
from perfci.verdicts.history.change_point_detection import Memory


@dataclass(frozen=True, slots=True)
class _Read:
    """The work on one project, and all that has to be known to do it."""

    project: Project
    work: Sequence[Work]
    histories: Histories
    pairs: Sequence[UploadedPairs]


@dataclass(frozen=True)
class Looking:
    """Whoever looks: under a lease, by the standards of each project, remembering what the looks before have seen."""

    store: Store
    lease: Lease
    standards_of: StandardsOf
    memory: Memory
    clock: Callable[[], datetime]

    def look(self, work: Sequence[Work]) -> None:
        """Do the work of one project. It is written twice, for incidents rest on the change points as stored."""
        with self.lease.beating():
            read = self._read(work)
            standards = self.standards_of(read.project)
            changes = read.histories.changes(standards.policy, self.memory)
            decided = [(pairs, pairs.judged(standards.policy)) for pairs in read.pairs]
            self._write(read, changes, decided)
            told = self._situation(read.project, standards)
            sync(self.store, read.project, standards.policy, told, self.clock(), self._writing)
        self._finish(read)

    def _read(self, work: Sequence[Work]) -> _Read:
        runs = [one.subject for one in work if one.kind == "judge"]
        sessions = dict.fromkeys(one.subject for one in work if one.kind == "judge_pr")
        with self.store.read() as tx:
            found = project(tx, work[0].project)
            assert found is not None  # the outbox refers to it
            return _Read(
                found,
                work,
                Histories.of(tx, run_lookup.series_of_runs(tx, runs)),
                [UploadedPairs.of(tx, found.slug, uid) for uid in sessions],
            )

    def _write(
        self,
        read: _Read,
        changes: Mapping[Series, Sequence[ChangePoint]],
        decided: Sequence[tuple[UploadedPairs, Sequence[Decided]]],
    ) -> None:
        now = self.clock()
        with self._writing() as tx:
            keep_change_points(tx, read.project.slug, changes)
            set_levels(tx, read.histories.digests)
            for pairs, verdicts in decided:
                if verdicts:
                    uploaded_pairs.write(tx, read.project.slug, pairs.uid, verdicts, now)

    def _situation(self, of: Project, standards: Standards) -> Situation:
        with self.store.read() as tx:
            return situation(tx, of.slug, standards.policy, standards.history)

    def _finish(self, read: _Read) -> None:
        """Forget exactly the work that was read: whoever dies before that does it again to the same result."""
        with self._writing() as tx:
            outbox.done(tx, [one.id for one in read.work])
            touch(tx, [read.project.id])

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Transaction]:
        """A transaction of whoever holds the lease."""
        with self.store.begin() as tx:
            self.lease.renewing(tx)
            yield tx
