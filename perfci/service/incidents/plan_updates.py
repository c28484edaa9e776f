"""Plan the writes that bring stored incidents in line with an evaluation, without writing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentKind, IncidentState
from perfci.service.audit_context import SYSTEM_ACTOR
from perfci.service.incidents import accept_expected
from perfci.service.incidents.compute_evaluation import ProjectEvaluation
from perfci.service.incidents.incident_columns import (
    apply_pinned_range,
    build_incident_columns,
    build_sync_events,
)
from perfci.service.incidents.match_incidents import DerivedIncident, StoredIncident, match_incidents
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_members import load_member_change_points, load_members_by_incident
from perfci.store.incidents.mutes import load_mutes
from perfci.store.incidents.records import IncidentEvent, IncidentMember, IncidentRecord, Mute
from perfci.store.projects import Project
from perfci.store.queries.loaders import find_ids_of_series
from perfci.verdicts.incidents.page_budget import BudgetedIncident

NO_LONGER_SEEN = "no longer seen after more points"
COMMIT_KINDS = (IncidentKind.REGRESSION, IncidentKind.MIXED, IncidentKind.IMPROVEMENT)


@dataclass(frozen=True, slots=True)
class IncidentWrite:
    """The planned write of one incident; ``record`` is the stored state it was computed from, None if new.

    ``bumps_revision`` marks writes that change what people decide on, so that they must reload it.
    """

    record: IncidentRecord | None
    columns: Mapping[str, Any]
    events: Sequence[IncidentEvent]
    members: Sequence[IncidentMember] = ()
    dropped: frozenset[int] = frozenset()
    moves: Sequence[IncidentMember] = ()
    bumps_revision: bool = False
    gone: bool = False

    @property
    def row_count(self) -> int:
        return 1 + len(self.members) + len(self.dropped) + len(self.moves)


def plan_writes(
    tx: Transaction, project: Project, evaluation: ProjectEvaluation, now: datetime
) -> list[IncidentWrite]:
    """Plan the writes of all changed incidents, the oldest first."""
    return _WritePlanner(tx, project, evaluation, now, load_mutes(tx, project.id, now)).plan()


@dataclass(frozen=True, slots=True)
class _WritePlanner:
    """Compares one evaluation with the stored incidents."""

    tx: Transaction
    project: Project
    evaluation: ProjectEvaluation
    now: datetime
    mutes: Sequence[Mute]

    def plan(self) -> list[IncidentWrite]:
        records = stored.load_incidents(self.tx, self.project.id)
        members = load_members_by_incident(self.tx, [record.id for record in records], include_dropped=True)
        place = {sha: -at for at, sha in enumerate(self.evaluation.commits)}
        kept_ones = [_build_stored_incident(record, members[record.id]) for record in records]
        pairs = match_incidents(self._collect_derived(), kept_ones, place)
        parts: dict[int, list[DerivedIncident]] = defaultdict(list)
        for derived, stored_incident in pairs:
            if stored_incident is not None:
                parts[stored_incident.record.id].append(derived)
        steps: list[IncidentWrite | None] = [
            self._plan_new(derived) for derived, stored_incident in pairs if stored_incident is None
        ]
        steps += [
            self._plan_existing(record, members[record.id], parts[record.id])
            for record in records
            if record.id in parts
        ]
        steps += [
            self._plan_disappeared(record)
            for record in records
            if record.id not in parts and record.gone_at is None
        ]
        return [step for step in steps if step is not None]

    def _collect_derived(self) -> list[DerivedIncident]:
        """Collect derived incidents; a series is one member, with its largest change."""
        moved = {
            change.series for budgeted in self.evaluation.incidents for change in budgeted.incident.members
        }
        ids = find_ids_of_series(self.tx, self.project.slug, moved)
        derived = []
        for budgeted in reversed(self.evaluation.incidents):
            members: dict[int, IncidentMember] = {}
            for change in budgeted.incident.members:
                row_id = ids[change.series]
                move = (change.commit, change.last_good, change.relative_change, change.before, change.after)
                members.setdefault(row_id, IncidentMember(row_id, *move))
            derived.append(DerivedIncident(budgeted, members))
        return derived

    def _plan_new(self, derived: DerivedIncident) -> IncidentWrite:
        budgeted, members = derived.budgeted, list(derived.members.values())
        columns = build_incident_columns(budgeted, self.evaluation, muted=self._is_muted(budgeted))
        decided = accept_expected.decide_new(budgeted, self.now)
        columns |= {
            "state": IncidentState.NEW.value,
            "first_seen": self.now,
            "changed_at": self.now,
            **decided.columns,
        }
        event = IncidentEvent(
            self.now, SYSTEM_ACTOR, "state", "", IncidentState.NEW.value, columns["headline"]
        )
        return IncidentWrite(
            None, columns, [event, *decided.events], members, moves=_select_commit_moves(budgeted, members)
        )

    def _plan_existing(
        self,
        record: IncidentRecord,
        stored_members: Sequence[IncidentMember],
        parts: Sequence[DerivedIncident],
    ) -> IncidentWrite | None:
        """Plan the write of a stored incident, None if nothing changed."""
        budgeted, members = parts[0].budgeted, dict(parts[0].members)
        # Of the parts of a split incident, the one that was expected least decides.
        least_expected = min((part.budgeted for part in parts), key=lambda budgeted: budgeted.is_expected)
        decided = accept_expected.decide_existing(self.tx, record, least_expected, self.now)
        for part in parts[1:]:
            members |= {k: member for k, member in part.members.items() if k not in members}
        had = {member.series_id: member for member in stored_members if member.dropped_at is None}
        if record.pinned:
            members = {k: had[k] for k in had.keys() - members.keys()} | members
            budgeted = apply_pinned_range(
                budgeted, record, load_member_change_points(self.tx, list(members.values()))
            )
        moved = [
            member
            for k, member in members.items()
            if k not in had or had[k].move_values != member.move_values
        ]
        dropped = frozenset(had.keys() - members.keys())
        different = self._find_changed_columns(record, budgeted)
        if not different and not moved and not dropped and not decided.columns:
            return None
        events, again = (
            [*build_sync_events(record, different, self.now), *decided.events],
            dict(decided.columns),
        )
        if (
            "gone_at" in different
            and record.state is IncidentState.INVALID
            and record.reason == NO_LONGER_SEEN
        ):
            anew = accept_expected.decide_new(budgeted, self.now)
            again = {
                "state": IncidentState.NEW.value,
                "reason": "",
                "changed_at": self.now,
            }  # the state number stays, so that no second notification is sent
            again, events = {**again, **anew.columns}, [*events, *anew.events]
        return IncidentWrite(
            record,
            different | again,
            events,
            moved,
            dropped,
            _select_commit_moves(budgeted, moved),
            bumps_revision=bool(again),
        )

    def _find_changed_columns(self, record: IncidentRecord, budgeted: BudgetedIncident) -> dict[str, Any]:
        columns = build_incident_columns(budgeted, self.evaluation, muted=self._is_muted(budgeted)) | {
            "gone_at": None
        }
        if record.pinned:
            columns["derived_id"] = record.derived_id
            columns["detail"] |= {
                name: record.detail.get(name) for name in ("candidate_commits", "next_measurement")
            }
        return {name: value for name, value in columns.items() if getattr(record, name) != value}

    def _plan_disappeared(self, record: IncidentRecord) -> IncidentWrite:
        """Plan the write of an incident no longer derived: invalid if untouched, else kept with an event."""
        if record.state is IncidentState.NEW and record.triaged_at is None and not record.pinned:
            event = IncidentEvent(
                self.now, SYSTEM_ACTOR, "state", record.state, IncidentState.INVALID, NO_LONGER_SEEN
            )
            columns = {"state": IncidentState.INVALID.value, "reason": NO_LONGER_SEEN, "changed_at": self.now}
            return IncidentWrite(
                record, columns | {"gone_at": self.now}, [event], bumps_revision=True, gone=True
            )
        event = IncidentEvent(self.now, SYSTEM_ACTOR, "sync", "seen", "gone", NO_LONGER_SEEN)
        return IncidentWrite(record, {"gone_at": self.now}, [event], gone=True)

    def _is_muted(self, budgeted: BudgetedIncident) -> bool:
        """Return whether all changed series are muted."""
        names = {(mute.benchmark, mute.metric) for mute in self.mutes}
        moved = {
            (change.series.benchmark.name, change.series.metric.name) for change in budgeted.incident.members
        }
        return bool(names) and all((name, "") in names or (name, metric) in names for name, metric in moved)


def _build_stored_incident(record: IncidentRecord, members: Sequence[IncidentMember]) -> StoredIncident:
    dropped = frozenset(member.series_id for member in members if member.dropped_at)
    return StoredIncident(record, frozenset(member.series_id for member in members) - dropped, dropped)


def _select_commit_moves(
    budgeted: BudgetedIncident, members: Sequence[IncidentMember]
) -> Sequence[IncidentMember]:
    """Select the changes recorded as commit impact: those attributed to a commit with enough evidence."""
    return members if budgeted.incident.kind in COMMIT_KINDS and budgeted.incident.settled else ()
