"""One look at a project with new uploads: read, compute with no transaction open, write what follows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.history import uploaded_pairs
from perfci.history.derive_change_points import SeriesHistories
from perfci.history.uploaded_pairs import UploadedPairs, VerdictDecision
from perfci.model import ChangePoint, Series
from perfci.policies import LoadPolicies, ProjectPolicies
from perfci.service.incidents.derive_incidents import ProjectEvaluation, evaluate_project
from perfci.service.incidents.reconcile_incidents import reconcile_incidents
from perfci.service.lease import Lease
from perfci.store import Store
from perfci.store.jobs import outbox
from perfci.store.jobs.outbox import OutboxItem
from perfci.store.projects import Project, find_project, mark_changed
from perfci.store.queries import run_lookup
from perfci.store.queries.result_summaries import save_result_summaries
from perfci.store.writes.verdict_writes import save_change_points
from perfci.verdicts.history.change_point_detection import SegmentationCache


@dataclass(frozen=True, slots=True)
class _EvaluationInput:
    """The work on one project, and all that has to be known to do it."""

    project: Project
    work: Sequence[OutboxItem]
    histories: SeriesHistories
    pairs: Sequence[UploadedPairs]


@dataclass(frozen=True)
class ProjectEvaluator:
    """Whoever looks: under a lease, by the standards of each project, remembering what the looks before have seen."""

    store: Store
    lease: Lease
    load_policies: LoadPolicies
    memory: SegmentationCache
    clock: Callable[[], datetime]

    def evaluate(self, work: Sequence[OutboxItem]) -> None:
        """Do the work of one project. It is written twice, for incidents rest on the change points as stored."""
        with self.lease.keep_alive():
            read = self._load_input(work)
            standards = self.load_policies(read.project)
            changes = read.histories.find_change_points(standards.policy, self.memory)
            decided = [(pairs, pairs.judge(standards.policy)) for pairs in read.pairs]
            self._save_results(read, changes, decided)
            evaluation = self._derive_incidents(read.project, standards)
            reconcile_incidents(
                self.store, read.project, standards.policy, evaluation, self.clock(), self._begin_leased
            )
        self._finish_work(read)

    def _load_input(self, work: Sequence[OutboxItem]) -> _EvaluationInput:
        runs = [item.subject for item in work if item.kind == "judge"]
        sessions = dict.fromkeys(item.subject for item in work if item.kind == "judge_pr")
        with self.store.read() as tx:
            project = find_project(tx, work[0].project)
            assert project is not None  # the outbox refers to it
            return _EvaluationInput(
                project,
                work,
                SeriesHistories.load(tx, run_lookup.load_series_ids_of_runs(tx, runs)),
                [UploadedPairs.load(tx, project.slug, uid) for uid in sessions],
            )

    def _save_results(
        self,
        inputs: _EvaluationInput,
        changes: Mapping[Series, Sequence[ChangePoint]],
        verdicts_by_pairs: Sequence[tuple[UploadedPairs, Sequence[VerdictDecision]]],
    ) -> None:
        now = self.clock()
        with self._begin_leased() as tx:
            save_change_points(tx, inputs.project.slug, changes)
            save_result_summaries(tx, inputs.histories.summaries)
            for pairs, verdicts in verdicts_by_pairs:
                if verdicts:
                    uploaded_pairs.save_verdicts(tx, inputs.project.slug, pairs.uid, verdicts, now)

    def _derive_incidents(self, project: Project, policies: ProjectPolicies) -> ProjectEvaluation:
        with self.store.read() as tx:
            return evaluate_project(tx, project.slug, policies.policy, policies.history)

    def _finish_work(self, inputs: _EvaluationInput) -> None:
        """Forget exactly the work that was read: whoever dies before that does it again to the same result."""
        with self._begin_leased() as tx:
            outbox.delete_work(tx, [item.id for item in inputs.work])
            mark_changed(tx, [inputs.project.id])

    @contextlib.contextmanager
    def _begin_leased(self) -> Iterator[Transaction]:
        """A transaction of whoever holds the lease."""
        with self.store.begin() as tx:
            self.lease.renew_in_transaction(tx)
            yield tx
