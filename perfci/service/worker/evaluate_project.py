"""Evaluate a project with new uploads: read, compute without a transaction, write the results."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.history import uploaded_pairs
from perfci.history.series_histories import SeriesHistories
from perfci.history.uploaded_pairs import UploadedPairs, VerdictDecision
from perfci.model import ChangePoint, Series
from perfci.policies import LoadPolicies
from perfci.service.incidents.compute_evaluation import derive_evaluation
from perfci.service.incidents.reconcile_incidents import reconcile_incidents
from perfci.service.lease import Lease
from perfci.store import Store
from perfci.store.jobs import outbox
from perfci.store.jobs.outbox import OutboxItem
from perfci.store.projects import Project, find_project, mark_changed
from perfci.store.queries import upload_lookup
from perfci.store.queries.result_summaries import save_result_summaries
from perfci.store.writes.verdict_writes import save_change_points
from perfci.verdicts.history.change_point_detection import SegmentationCache


@dataclass(frozen=True, slots=True)
class _EvaluationInput:
    """The work items of one project with the data to process them."""

    project: Project
    work: Sequence[OutboxItem]
    histories: SeriesHistories
    pairs: Sequence[UploadedPairs]


@dataclass(frozen=True)
class ProjectEvaluator:
    """Evaluates projects under a lease, by the policy of each, with cached segmentations."""

    store: Store
    lease: Lease
    load_policies: LoadPolicies
    segmentation_cache: SegmentationCache
    clock: Callable[[], datetime]

    def evaluate(self, work: Sequence[OutboxItem]) -> None:
        """Process the work of one project.

        Change points are stored before incidents are derived, because these read them from the store.
        """
        with self.lease.keep_alive():
            inputs = self._load_input(work)
            policies = self.load_policies(inputs.project)
            changes = inputs.histories.find_change_points(policies.policy, self.segmentation_cache)
            verdicts = [(pairs, pairs.judge(policies.policy)) for pairs in inputs.pairs]
            self._save_results(inputs, changes, verdicts)
            with self.store.read() as tx:
                evaluation = derive_evaluation(tx, inputs.project.slug, policies.policy, policies.history)
            reconcile_incidents(
                self.store, inputs.project, policies.policy, evaluation, self.clock(), self._begin_leased
            )
        self._finish_work(inputs)

    def _load_input(self, work: Sequence[OutboxItem]) -> _EvaluationInput:
        runs = [item.subject for item in work if item.kind == "judge"]
        sessions = dict.fromkeys(item.subject for item in work if item.kind == "judge_pr")
        with self.store.read() as tx:
            project = find_project(tx, work[0].project)
            assert project is not None  # a foreign key of the outbox
            return _EvaluationInput(
                project,
                work,
                SeriesHistories.load(tx, upload_lookup.load_series_ids_of_runs(tx, runs)),
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

    def _finish_work(self, inputs: _EvaluationInput) -> None:
        """Delete the processed items; after a crash before that they are repeated."""
        with self._begin_leased() as tx:
            outbox.delete_work(tx, [item.id for item in inputs.work])
            mark_changed(tx, [inputs.project.id])

    @contextlib.contextmanager
    def _begin_leased(self) -> Iterator[Transaction]:
        """Open a write transaction that fails if the lease was lost."""
        with self.store.begin() as tx:
            self.lease.renew_in_transaction(tx)
            yield tx
