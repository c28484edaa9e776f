"""Plan the writes of stored incidents: what brings each in line with an evaluation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.model import ChangePoint, IncidentKind, IncidentState
from perfci.report.incidents import incident_text as words
from perfci.service.audit_context import SYSTEM_ACTOR
from perfci.service.incidents.evaluate_project import ProjectEvaluation
from perfci.service.incidents.match_incidents import DerivedIncident, StoredIncident, match_incidents
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_records import IncidentEvent, IncidentMember, IncidentRecord, Mute
from perfci.store.incidents.incident_store import load_member_change_points, load_members_by_incident
from perfci.verdicts.incidents.paging_budget import PAGING_KINDS, BudgetedIncident, ExpectedChangeMatch

NO_LONGER_SEEN = "no longer seen after more points"
UNEXPECTED_CHANGE_REASON = "the regression is not the expected change"
COMMIT_KINDS = (IncidentKind.REGRESSION, IncidentKind.MIXED, IncidentKind.IMPROVEMENT)
"""Kinds that are attributed to a commit: with enough evidence, their changes are recorded as its impact."""


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


@dataclass(frozen=True, slots=True)
class StateDecision:
    """State columns and events to write for an incident, if any."""

    columns: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[IncidentEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredIncidentPlanner:
    """Plans the writes of stored incidents after one evaluation."""

    tx: Transaction
    evaluation: ProjectEvaluation
    mutes: Sequence[Mute]
    now: datetime

    def match_and_plan_updates(
        self, records: Sequence[IncidentRecord], derived: Sequence[DerivedIncident]
    ) -> tuple[list[DerivedIncident], list[IncidentWrite]]:
        """Return the derived incidents that match no stored one, and the writes of the stored ones."""
        members = load_members_by_incident(self.tx, [record.id for record in records], include_dropped=True)
        stored_incidents = []
        for record in records:
            dropped = frozenset(member.series_id for member in members[record.id] if member.dropped_at)
            series = frozenset(member.series_id for member in members[record.id]) - dropped
            stored_incidents.append(StoredIncident(record, series, dropped))
        positions = {sha: -at for at, sha in enumerate(self.evaluation.commits)}
        new: list[DerivedIncident] = []
        parts: dict[int, list[DerivedIncident]] = defaultdict(list)
        for incident, match in match_incidents(derived, stored_incidents, positions):
            if match is None:
                new.append(incident)
            else:
                parts[match.record.id].append(incident)
        writes = [
            self._plan_update(record, members[record.id], parts[record.id])
            for record in records
            if record.id in parts
        ]
        writes += [
            self._plan_disappearance(record)
            for record in records
            if record.id not in parts and record.gone_at is None
        ]
        return new, [write for write in writes if write is not None]

    def _plan_update(
        self,
        record: IncidentRecord,
        stored_members: Sequence[IncidentMember],
        parts: Sequence[DerivedIncident],
    ) -> IncidentWrite | None:
        """Plan the write of a stored incident, None if nothing changed."""
        budgeted = parts[0].budgeted
        members = _merge_members(parts)
        had = {member.series_id: member for member in stored_members if member.dropped_at is None}
        if record.pinned:
            members = {k: had[k] for k in had.keys() - members.keys()} | members
            change_points = load_member_change_points(self.tx, list(members.values()))
            budgeted = _apply_pinned_range(budgeted, record, change_points)
        moved = [
            member
            for k, member in members.items()
            if k not in had or had[k].computed_fields != member.computed_fields
        ]
        dropped = frozenset(had.keys() - members.keys())
        is_impact = budgeted.incident.settled and budgeted.incident.kind in COMMIT_KINDS
        columns = self._find_changed_columns(record, budgeted)
        decided = self._decide_existing(record, parts)
        if "gone_at" in columns and record.state is IncidentState.INVALID and record.reason == NO_LONGER_SEEN:
            # The state number stays, so that no second notification is sent.
            reopened = {"state": IncidentState.NEW.value, "reason": "", "changed_at": self.now}
            anew = StateDecision()
            if budgeted.expected_change_match is not None:
                anew = decide_expected_incident_state(budgeted.expected_change_match, self.now)
            decided = StateDecision({**reopened, **anew.columns}, (*decided.events, *anew.events))
        if not columns and not moved and not dropped and not decided.columns:
            return None
        return IncidentWrite(
            record,
            {**columns, **decided.columns},
            [*_build_sync_events(record, columns, self.now), *decided.events],
            moved,
            dropped,
            moved if is_impact else (),
            bumps_revision=bool(decided.columns),
        )

    def _decide_existing(self, record: IncidentRecord, parts: Sequence[DerivedIncident]) -> StateDecision:
        """Decide the state of a stored incident after an evaluation; keep decisions of people.

        Expected changes are accepted, and no longer when the regression turns out larger, unless a person
        has triaged or regrouped the incident.
        """
        # Of the parts of a split incident, the one that was expected least decides.
        budgeted = min((part.budgeted for part in parts), key=lambda budgeted: budgeted.is_expected)
        match = budgeted.expected_change_match
        sentence = words.expected_change_sentence(match) if match is not None else ""
        if budgeted.is_expected:
            if record.state is IncidentState.NEW and all(
                event.actor == SYSTEM_ACTOR for event in stored.load_incident_events(self.tx, record.id)
            ):
                return self._build_transition(record, IncidentState.ACCEPTED, sentence)
            return StateDecision()
        is_auto_accepted = (
            record.state is IncidentState.ACCEPTED and record.triaged_at is None and not record.pinned
        )
        if is_auto_accepted and budgeted.incident.kind in PAGING_KINDS:
            return self._build_transition(record, IncidentState.NEW, sentence or UNEXPECTED_CHANGE_REASON)
        if match is not None and not record.detail.get("expected_change"):
            return StateDecision(events=(IncidentEvent(self.now, SYSTEM_ACTOR, "expected", text=sentence),))
        return StateDecision()

    def _build_transition(self, record: IncidentRecord, state: IncidentState, reason: str) -> StateDecision:
        columns = {
            "state": state.value,
            "state_number": record.state_number + 1,
            "reason": reason,
            "changed_at": self.now,
        }
        event = IncidentEvent(self.now, SYSTEM_ACTOR, "state", record.state, state, reason)
        return StateDecision(columns, (event,))

    def _find_changed_columns(self, record: IncidentRecord, budgeted: BudgetedIncident) -> dict[str, Any]:
        columns = self.evaluation.build_incident_columns(budgeted, self.mutes) | {"gone_at": None}
        if record.pinned:
            columns["derived_id"] = record.derived_id
            columns["detail"] |= {
                name: record.detail.get(name) for name in ("candidate_commits", "next_measurement")
            }
        return {name: value for name, value in columns.items() if getattr(record, name) != value}

    def _plan_disappearance(self, record: IncidentRecord) -> IncidentWrite:
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


def _merge_members(parts: Sequence[DerivedIncident]) -> dict[int, IncidentMember]:
    """Merge the members of the parts of an incident; of a series in several, the first part's."""
    members: dict[int, IncidentMember] = {}
    for part in parts:
        for series_id, member in part.members.items():
            members.setdefault(series_id, member)
    return members


def decide_expected_incident_state(match: ExpectedChangeMatch, now: datetime) -> StateDecision:
    """Accept a new incident that was expected in full; of any other, note how it differs."""
    sentence = words.expected_change_sentence(match)
    if match.covers_all:
        event = IncidentEvent(now, SYSTEM_ACTOR, "state", IncidentState.NEW, IncidentState.ACCEPTED, sentence)
        return StateDecision({"state": IncidentState.ACCEPTED.value, "reason": sentence}, (event,))
    return StateDecision(events=(IncidentEvent(now, SYSTEM_ACTOR, "expected", text=sentence),))


def _apply_pinned_range(
    budgeted: BudgetedIncident, record: IncidentRecord, members: Sequence[ChangePoint]
) -> BudgetedIncident:
    """Replace the range and the members of an incident by those that a person set."""
    ordered = tuple(sorted(members, key=lambda change: -abs(change.log_cost_change)))
    return replace(
        budgeted,
        incident=replace(
            budgeted.incident, members=ordered, last_good=record.last_good, commit=record.commit
        ),
    )


def _build_sync_events(
    record: IncidentRecord, changed_columns: Mapping[str, Any], now: datetime
) -> list[IncidentEvent]:
    """Build the history events of changed columns; a changed text alone is no event."""
    changes = []
    if "kind" in changed_columns:
        changes.append((record.kind, changed_columns["kind"], changed_columns.get("headline", "")))
    if "commit" in changed_columns or "last_good" in changed_columns:
        last_good = changed_columns.get("last_good", record.last_good)
        commit = changed_columns.get("commit", record.commit)
        before = f"{record.last_good[:10]}..{record.commit[:10]}"
        changes.append((before, f"{last_good[:10]}..{commit[:10]}", "more points show the range better"))
    if "gone_at" in changed_columns:
        changes.append(("gone", "seen", "seen again"))
    return [IncidentEvent(now, SYSTEM_ACTOR, "sync", *change) for change in changes]
