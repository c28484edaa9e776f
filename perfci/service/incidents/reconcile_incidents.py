"""Reconcile stored incidents with those that an evaluation derived.

Differences are planned in a read transaction and written in short ones, each incident only at the revision
that was read. Incidents that a person changed meanwhile are planned again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentState
from perfci.service.audit_context import SYSTEM_ACTOR
from perfci.service.incidents.compute_evaluation import ProjectEvaluation
from perfci.service.incidents.incident_columns import build_evaluation_record
from perfci.service.incidents.lifecycle_sweep import run_lifecycle_sweep
from perfci.service.incidents.plan_updates import IncidentWrite, plan_writes
from perfci.service.notify.enqueue_notifications import enqueue_new_incidents, enqueue_notifications
from perfci.store import Store
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.impact import save_impacts, set_impacts_accepted
from perfci.store.incidents.incident_members import add_members, drop_members
from perfci.store.projects import Project, mark_changed
from perfci.verdicts.policy import Policy

MAX_ROWS_PER_TRANSACTION = 500
"""Rows written in one transaction, which takes some ten milliseconds."""

MAX_ATTEMPTS = 5
"""Planning rounds; an incident that a person changes in each round is left to the next evaluation."""

BeginTransaction = Callable[[], AbstractContextManager[Transaction]]


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """Numbers of the incidents that an evaluation created, changed or found gone."""

    new: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()


def reconcile_incidents(
    store: Store,
    project: Project,
    policy: Policy,
    evaluation: ProjectEvaluation,
    now: datetime,
    begin: BeginTransaction | None = None,
) -> ReconcileResult:
    """Write an evaluation into the stored incidents and enqueue notifications.

    ``begin`` opens a write transaction, by default of the store. After a crash the same evaluation writes
    the rest; notifications are enqueued once, after all incidents are written.
    """
    begin = begin or store.begin
    written: list[tuple[IncidentWrite, int]] = []
    for _ in range(MAX_ATTEMPTS):
        with store.read() as tx:
            steps = plan_writes(tx, project, evaluation, now)
        taken = [
            number for batch in _batch_writes(steps) for number in _apply_writes(begin, project, batch, now)
        ]
        written += [(step, number) for step, number in zip(steps, taken, strict=True) if number is not None]
        if None not in taken:
            break
    run_lifecycle_sweep(store, project, policy, now, begin)
    with begin() as tx:
        enqueue_new_incidents(
            tx, project, now, first_evaluation=stored.load_last_evaluation(tx, project.id) is None
        )
        stored.save_evaluation(tx, project.id, build_evaluation_record(evaluation, now))
        mark_changed(tx, [project.id])
    return ReconcileResult(
        tuple(number for step, number in written if step.record is None),
        tuple(number for step, number in written if step.record is not None and not step.gone),
        tuple(number for step, number in written if step.gone),
    )


def _batch_writes(planned: Sequence[IncidentWrite]) -> Iterator[list[IncidentWrite]]:
    """Batch writes by row count, so that uploads wait for short transactions only."""
    portion: list[IncidentWrite] = []
    for step in planned:
        if portion and sum(write.row_count for write in portion) + step.row_count > MAX_ROWS_PER_TRANSACTION:
            yield portion
            portion = []
        portion.append(step)
    if portion:
        yield portion


def _apply_writes(
    begin: BeginTransaction, project: Project, planned: Sequence[IncidentWrite], now: datetime
) -> list[int | None]:
    """Apply writes in one transaction; return incident numbers, None for those changed meanwhile."""
    with begin() as tx:
        mark_changed(tx, [project.id])
        return [_apply_write(tx, project, step, now) for step in planned]


def _apply_write(tx: Transaction, project: Project, planned: IncidentWrite, now: datetime) -> int | None:
    record = planned.record or stored.add_incident(tx, project.id, planned.columns)
    if planned.record is not None:
        write = stored.update_incident if planned.bumps_revision else stored.update_derived_if_unchanged
        if not write(tx, record.id, record.revision, planned.columns):
            return None
    add_members(tx, record.id, planned.members, is_new_incident=planned.record is None)
    drop_members(tx, record.id, planned.dropped, now)
    save_impacts(tx, project.id, record.id, planned.moves, now)
    stored.add_events(tx, [(record.id, event) for event in planned.events])
    if "state" in planned.columns or record.state is IncidentState.ACCEPTED:
        _apply_state_effects(tx, project, planned, record.number, now)
    return record.number


def _apply_state_effects(
    tx: Transaction, project: Project, planned: IncidentWrite, number: int, now: datetime
) -> None:
    """Mark impacts as accepted or not, and notify destinations that were notified before."""
    record = stored.find_incident(tx, project.id, number)
    assert record is not None
    set_impacts_accepted(tx, [record.id], record.state is IncidentState.ACCEPTED)
    if "state_number" in planned.columns and record.paged_at is not None:
        enqueue_notifications(tx, project, record, now, actor=SYSTEM_ACTOR, reason=record.reason)
