"""What has to be written so that the stored incidents are those of a look; nothing is written here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentKind, IncidentState
from perfci.service.incidents import accept_expected
from perfci.service.incidents.derive_incidents import Situation
from perfci.service.incidents.incident_columns import PERFCI, as_pinned, described, events_of
from perfci.service.incidents.match_incidents import Found, Kept, matched
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_members import changes, ids_of_series, members_of
from perfci.store.incidents.mutes import suspensions
from perfci.store.incidents.records import Event, IncidentRecord, Member, Suspension
from perfci.store.projects import Project
from perfci.verdicts.incidents.page_budget import Told

SEEN_NO_MORE = "no longer seen after more points"
OF_COMMITS = (IncidentKind.REGRESSION, IncidentKind.MIXED, IncidentKind.IMPROVEMENT)


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be written of one incident, whose ``record`` is as it was read; of a new one there is none.

    ``decides`` is whether it changes what people decide on: whoever saw it before has to look again.
    """

    record: IncidentRecord | None
    columns: Mapping[str, Any]
    events: Sequence[Event]
    members: Sequence[Member] = ()
    dropped: frozenset[int] = frozenset()
    lines: Sequence[Member] = ()
    decides: bool = False
    gone: bool = False

    @property
    def rows(self) -> int:
        return 1 + len(self.members) + len(self.dropped) + len(self.lines)


def differences(tx: Transaction, project: Project, found: Situation, now: datetime) -> list[Step]:
    """What is to be written, the oldest first; of what is as it was, nothing."""
    return _Comparison(tx, project, found, now, suspensions(tx, project.id, now)).steps()


@dataclass(frozen=True, slots=True)
class _Comparison:
    """One look beside what is stored."""

    tx: Transaction
    project: Project
    found: Situation
    now: datetime
    suspended: Sequence[Suspension]

    def steps(self) -> list[Step]:
        records = stored.of_project(self.tx, self.project.id)
        members = members_of(self.tx, [one.id for one in records], dropped=True)
        place = {sha: -at for at, sha in enumerate(self.found.commits)}
        kept_ones = [_kept(one, members[one.id]) for one in records]
        pairs = matched(self._parts(), kept_ones, place)
        parts: dict[int, list[Found]] = defaultdict(list)
        for one, kept in pairs:
            if kept is not None:
                parts[kept.record.id].append(one)
        steps: list[Step | None] = [self._new(one) for one, kept in pairs if kept is None]
        steps += [self._again(one, members[one.id], parts[one.id]) for one in records if one.id in parts]
        steps += [self._lost(one) for one in records if one.id not in parts and one.gone_at is None]
        return [step for step in steps if step is not None]

    def _parts(self) -> list[Found]:
        """A series that moved more than once in one incident is its member once, with its largest move."""
        moved = {change.series for told in self.found.told for change in told.incident.members}
        ids = ids_of_series(self.tx, self.project.slug, moved)
        found = []
        for told in reversed(self.found.told):
            members: dict[int, Member] = {}
            for change in told.incident.members:
                row_id = ids[change.series]
                move = (change.commit, change.last_good, change.rel, change.before, change.after)
                members.setdefault(row_id, Member(row_id, *move))
            found.append(Found(told, members))
        return found

    def _new(self, one: Found) -> Step:
        told, members = one.told, list(one.members.values())
        columns = described(told, self.found, monitored=self._monitored(told))
        decided = accept_expected.at_first(told, self.now)
        columns |= {"state": IncidentState.NEW.value, "first_seen": self.now, "changed_at": self.now, **decided.columns}
        event = Event(self.now, PERFCI, "state", "", IncidentState.NEW.value, columns["headline"])
        return Step(None, columns, [event, *decided.events], members, lines=_lines(told, members))

    def _again(self, record: IncidentRecord, known: Sequence[Member], parts: Sequence[Found]) -> Step | None:
        """What is not as it was, if anything."""
        told, members = parts[0].told, dict(parts[0].members)
        decided = accept_expected.later(self.tx, record, _least_foretold(parts), self.now)
        for part in parts[1:]:
            members |= {k: member for k, member in part.members.items() if k not in members}
        had = {one.series_id: one for one in known if one.dropped_at is None}
        if record.pinned:
            members = {k: had[k] for k in had.keys() - members.keys()} | members
            told = as_pinned(told, record, changes(self.tx, list(members.values())))
        moved = [one for k, one in members.items() if k not in had or had[k].move != one.move]
        dropped = frozenset(had.keys() - members.keys())
        different = self._different(record, told)
        if not different and not moved and not dropped and not decided.columns:
            return None
        events, again = [*events_of(record, different, self.now), *decided.events], dict(decided.columns)
        if "gone_at" in different and record.state is IncidentState.INVALID and record.reason == SEEN_NO_MORE:
            anew = accept_expected.at_first(told, self.now)
            again = {"state": IncidentState.NEW.value, "reason": "", "changed_at": self.now}  # nobody is told twice
            again, events = {**again, **anew.columns}, [*events, *anew.events]
        return Step(record, different | again, events, moved, dropped, _lines(told, moved), decides=bool(again))

    def _different(self, record: IncidentRecord, told: Told) -> dict[str, Any]:
        columns = described(told, self.found, monitored=self._monitored(told)) | {"gone_at": None}
        if record.pinned:
            columns["derived_id"] = record.derived_id
            columns["detail"] |= {name: record.detail.get(name) for name in ("suspects", "measure")}
        return {name: value for name, value in columns.items() if getattr(record, name) != value}

    def _lost(self, record: IncidentRecord) -> Step:
        """Untouched, it was nothing; one that somebody worked on keeps its state and says so."""
        if record.state is IncidentState.NEW and record.triaged_at is None and not record.pinned:
            event = Event(self.now, PERFCI, "state", record.state, IncidentState.INVALID, SEEN_NO_MORE)
            columns = {"state": IncidentState.INVALID.value, "reason": SEEN_NO_MORE, "changed_at": self.now}
            return Step(record, columns | {"gone_at": self.now}, [event], decides=True, gone=True)
        event = Event(self.now, PERFCI, "sync", "seen", "gone", SEEN_NO_MORE)
        return Step(record, {"gone_at": self.now}, [event], gone=True)

    def _monitored(self, told: Told) -> bool:
        """Whether all that moved is in quarantine."""
        names = {(one.benchmark, one.metric) for one in self.suspended}
        moved = {(change.series.benchmark.name, change.series.metric.name) for change in told.incident.members}
        return bool(names) and all((name, "") in names or (name, metric) in names for name, metric in moved)


def _kept(record: IncidentRecord, members: Sequence[Member]) -> Kept:
    dropped = frozenset(one.series_id for one in members if one.dropped_at)
    return Kept(record, frozenset(one.series_id for one in members) - dropped, dropped)


def _least_foretold(parts: Sequence[Found]) -> Told:
    """The part of an incident of which least was announced."""
    return min((part.told for part in parts), key=lambda told: told.announced)


def _lines(told: Told, members: Sequence[Member]) -> Sequence[Member]:
    """What is written into the ledger: moves that a commit is known to have made."""
    return members if told.incident.kind in OF_COMMITS and told.incident.settled else ()
