"""Reconcile stored incidents with those that an evaluation derived.

Every evaluation derives incidents again, and their ranges and ids change as points arrive. A derived
incident matches the stored one with its id, else one that shares a series and overlaps in the commit range.
Differences are planned in a read transaction and written in short ones, each incident only at the revision
that was read. Incidents that a person changed meanwhile are planned again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import itemgetter

from sqlalchemy.orm import Session as Transaction

from perfci.config import Config
from perfci.model import IncidentKind, IncidentState
from perfci.policies import build_policy
from perfci.service.audit_context import SYSTEM_ACTOR
from perfci.service.incidents.evaluate_project import ProjectEvaluation, evaluate_project
from perfci.service.incidents.incident_write_planner import (
    DerivedIncident,
    IncidentWrite,
    IncidentWritePlanner,
)
from perfci.service.incidents.lifecycle_sweep import BeginTransaction, run_lifecycle_sweep
from perfci.service.notify.enqueue_notifications import (
    enqueue_new_incident_notifications,
    enqueue_notifications,
)
from perfci.store import Store
from perfci.store.incidents import incident_store
from perfci.store.incidents.expected_changes_and_mutes import load_mutes
from perfci.store.incidents.incident_records import IncidentMember, IncidentRecord
from perfci.store.incidents.incident_store import (
    add_members,
    drop_members,
    load_members_by_incident,
    save_impacts,
    set_impacts_accepted,
)
from perfci.store.projects import Project, find_project, mark_projects_changed
from perfci.store.queries.series_and_commits import find_ids_by_series
from perfci.verdicts.policy import Policy

MAX_ROWS_PER_TRANSACTION = 500
"""Rows written in one transaction, which takes some ten milliseconds."""

MAX_ATTEMPTS = 5
"""Planning rounds; an incident that a person changes in each round is left to the next evaluation."""

KIND_GROUPS: Mapping[str, str] = {
    IncidentKind.REGRESSION: "worse",
    IncidentKind.MIXED: "worse",
    IncidentKind.IMPROVEMENT: "better",
    IncidentKind.ENVIRONMENT: "no commit",
    IncidentKind.MACHINE: "no commit",
    IncidentKind.RESOLVED: "no commit",
}


@dataclass(frozen=True, slots=True)
class StoredIncident:
    """A stored incident with its series; ``dropped`` were removed by a person and never return."""

    record: IncidentRecord
    series: Collection[int]
    dropped: Collection[int] = frozenset()


IncidentMatch = tuple[DerivedIncident, StoredIncident | None]


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
            steps = plan_incident_writes(tx, project, evaluation, now)
        taken: list[int | None] = []
        for batch in _batch_writes(steps):
            with begin() as tx:
                mark_projects_changed(tx, [project.id])
                taken += [_apply_write(tx, project, step, now) for step in batch]
        written += [(step, number) for step, number in zip(steps, taken, strict=True) if number is not None]
        if None not in taken:
            break
    run_lifecycle_sweep(store, project, policy, now, begin)
    with begin() as tx:
        is_first = incident_store.save_evaluation(tx, project.id, evaluation.build_evaluation_record(now))
        enqueue_new_incident_notifications(tx, project, now, first_evaluation=is_first)
        mark_projects_changed(tx, [project.id])
    return ReconcileResult(
        tuple(number for step, number in written if step.record is None),
        tuple(number for step, number in written if step.record is not None and not step.gone),
        tuple(number for step, number in written if step.gone),
    )


def evaluate_and_reconcile(
    store: Store, config: Config, tags: Mapping[str, Collection[str]] | None = None
) -> ReconcileResult:
    """Evaluate and reconcile a project without a server; ``tags`` as in ``evaluate_project``."""
    policy = build_policy(config.settings)
    with store.read() as tx:
        project = find_project(tx, config.project)
        if project is None:
            return ReconcileResult()
        evaluation = evaluate_project(tx, config.project, policy, config.settings.history, tags)
    return reconcile_incidents(store, project, policy, evaluation, datetime.now(UTC))


def plan_incident_writes(
    tx: Transaction, project: Project, evaluation: ProjectEvaluation, now: datetime
) -> list[IncidentWrite]:
    """Plan the writes of all changed incidents, the oldest first."""
    records = incident_store.load_incidents(tx, project.id, incident_store.MEASURED)[::-1]
    members = load_members_by_incident(tx, [record.id for record in records], include_dropped=True)
    positions = {sha: -at for at, sha in enumerate(evaluation.commits)}
    kept = []
    for record in records:
        dropped = frozenset(member.series_id for member in members[record.id] if member.dropped_at)
        series = frozenset(member.series_id for member in members[record.id]) - dropped
        kept.append(StoredIncident(record, series, dropped))
    planner = IncidentWritePlanner(tx, evaluation, load_mutes(tx, project.id, now), now)
    steps: list[IncidentWrite | None] = []
    parts: dict[int, list[DerivedIncident]] = defaultdict(list)
    for derived, match in match_incidents(_collect_derived(tx, project, evaluation), kept, positions):
        if match is None:
            steps.append(planner.plan_new_incident(derived))
        else:
            parts[match.record.id].append(derived)
    steps += [
        planner.plan_stored_incident(record, members[record.id], parts[record.id])
        for record in records
        if record.id in parts
    ]
    steps += [
        planner.plan_disappeared_incident(record)
        for record in records
        if record.id not in parts and record.gone_at is None
    ]
    return [step for step in steps if step is not None]


def _collect_derived(
    tx: Transaction, project: Project, evaluation: ProjectEvaluation
) -> list[DerivedIncident]:
    """Collect derived incidents, oldest first; a series is one member, with its largest change."""
    moved = {change.series for budgeted in evaluation.incidents for change in budgeted.incident.members}
    ids = find_ids_by_series(tx, project.slug, moved)
    derived = []
    for budgeted in reversed(evaluation.incidents):
        members: dict[int, IncidentMember] = {}
        for change in budgeted.incident.members:
            row_id = ids[change.series]
            move = (change.commit, change.last_good, change.relative_change, change.before, change.after)
            members.setdefault(row_id, IncidentMember(row_id, *move))
        derived.append(DerivedIncident(budgeted, members))
    return derived


def match_incidents(
    derived: Sequence[DerivedIncident], stored: Sequence[StoredIncident], positions: Mapping[str, int]
) -> list[IncidentMatch]:
    """Match each derived incident to a stored one; a new incident matches none.

    Merges and splits by people stay: a derived incident is divided among the pinned ones it overlaps. The
    others are matched by id, then by shared series, within the same kind group first and most shared first.
    """
    pinned = [incident for incident in stored if incident.record.pinned]
    matches: list[IncidentMatch] = []
    left: list[DerivedIncident] = []
    for incident in derived:
        parts = _split_among_pinned(incident, pinned, positions)
        matches += parts
        left += [] if parts else [incident]
    unpinned = [incident for incident in stored if not incident.record.pinned]
    by_id = {incident.record.derived_id: incident for incident in unpinned}
    taken: dict[int, StoredIncident] = {}
    used: set[int] = set()
    for at, incident in enumerate(left):
        if (namesake := by_id.get(incident.budgeted.incident.id)) and namesake.record.id not in used:
            taken[at] = namesake
            used.add(namesake.record.id)
    for _, at, candidate in sorted(_find_candidates(left, unpinned, positions), key=itemgetter(0, 1)):
        if at not in taken and candidate.record.id not in used:
            taken[at] = candidate
            used.add(candidate.record.id)
    return matches + [(incident, taken.get(at)) for at, incident in enumerate(left)]


def _split_among_pinned(
    derived: DerivedIncident, pinned: Sequence[StoredIncident], positions: Mapping[str, int]
) -> list[IncidentMatch]:
    """Divide the members among pinned incidents that hold them; the rest goes to the largest share."""
    holders = [
        (holder, derived.members.keys() & holder.series)
        for holder in pinned
        if _has_overlap(derived, holder, positions)
    ]
    holders = sorted(((holder, held) for holder, held in holders if held), key=lambda pair: -len(pair[1]))
    parts: list[tuple[StoredIncident, set[int]]] = []
    free = set(derived.members)
    for holder, held in holders:
        parts.append((holder, held & free))
        free -= held
    if parts:
        first, held = parts[0]
        held |= free - set(first.dropped)
    return [
        (replace(derived, members={k: derived.members[k] for k in held}), holder)
        for holder, held in parts
        if held
    ]


def _find_candidates(
    derived: Sequence[DerivedIncident], stored: Sequence[StoredIncident], positions: Mapping[str, int]
) -> list[tuple[tuple[bool, int, int], int, StoredIncident]]:
    """List the overlaps: rank, the place of the derived incident, and the stored one."""
    by_series: dict[int, list[StoredIncident]] = defaultdict(list)
    for holder in stored:
        for series_id in holder.series:
            by_series[series_id].append(holder)
    candidates = []
    for at, incident in enumerate(derived):
        shared: dict[int, int] = defaultdict(int)
        holders: dict[int, StoredIncident] = {}
        for series_id in incident.members:
            for holder in by_series.get(series_id, ()):
                shared[holder.record.id] += 1
                holders[holder.record.id] = holder
        for row_id, count in shared.items():
            if _has_overlap(incident, holders[row_id], positions):
                kind, stored_kind = incident.budgeted.incident.kind, holders[row_id].record.kind
                apart = KIND_GROUPS.get(kind, kind) != KIND_GROUPS.get(stored_kind, stored_kind)
                candidates.append(((apart, -count, row_id), at, holders[row_id]))
    return candidates


def _has_overlap(derived: DerivedIncident, stored: StoredIncident, positions: Mapping[str, int]) -> bool:
    """Return whether two ranges (last good, first bad] overlap; off the main line they must share an end."""
    incident, record = derived.budgeted.incident, stored.record
    ends = [
        positions.get(sha) for sha in (incident.last_good, incident.commit, record.last_good, record.commit)
    ]
    if None in ends:
        return incident.commit == record.commit or incident.last_good == record.last_good
    good, bad, known_good, known_bad = (end for end in ends if end is not None)
    return max(good, known_good) < min(bad, known_bad)


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


def _apply_write(tx: Transaction, project: Project, planned: IncidentWrite, now: datetime) -> int | None:
    """Write one incident with what belongs to it; return its number, None if it was changed meanwhile.

    Destinations that were notified of the incident before hear of its new state.
    """
    record = planned.record or incident_store.add_incident(tx, project.id, planned.columns)
    if planned.record is not None:
        write = (
            incident_store.update_incident
            if planned.bumps_revision
            else incident_store.update_derived_columns_if_unchanged
        )
        if not write(tx, record.id, record.revision, planned.columns):
            return None
    add_members(tx, record.id, planned.members, is_new_incident=planned.record is None)
    drop_members(tx, record.id, planned.dropped, now)
    save_impacts(tx, project.id, record.id, planned.moves, now)
    incident_store.add_incident_events(tx, [(record.id, event) for event in planned.events])
    if "state" in planned.columns or record.state is IncidentState.ACCEPTED:
        written = incident_store.find_incident(tx, project.id, record.number)
        assert written is not None
        set_impacts_accepted(tx, [written.id], written.state is IncidentState.ACCEPTED)
        if "state_number" in planned.columns and written.paged_at is not None:
            enqueue_notifications(tx, project, written, now, actor=SYSTEM_ACTOR, reason=written.reason)
    return record.number
