"""Keep the incidents people work on in step with what every look derives anew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentKind, IncidentState
from perfci.service.attending import attend
from perfci.service.describing import PERFCI, as_pinned, described, events_of, look_of
from perfci.service.incidents import Situation
from perfci.service.matching import Found, Kept, matched
from perfci.service.notifying import tell_new
from perfci.store import incidents as stored
from perfci.store.coordinates import series_ids
from perfci.store.incident_records import Event, IncidentRecord, Member, Suspension
from perfci.store.members import add_members, changes, drop_members, members_of, record_moves
from perfci.store.projects import Project, touch
from perfci.store.suspensions import suspensions
from perfci.verdicts.budget import Told

SEEN_NO_MORE = "no longer seen after more points"
OF_COMMITS = (IncidentKind.REGRESSION, IncidentKind.MIXED, IncidentKind.IMPROVEMENT)


@dataclass(frozen=True, slots=True)
class Synced:
    """What a look changed, by number."""

    new: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()


def sync(tx: Transaction, project: Project, found: Situation, now: datetime) -> Synced:
    """Write what a look found into the stored incidents, and put on their way the messages it calls for."""
    work = _Work(tx, project, found, now, suspensions(tx, project.id, now))
    records = stored.of_project(tx, project.id)
    members = members_of(tx, [one.id for one in records], dropped=True)
    place = {sha: -at for at, sha in enumerate(found.commits)}
    kept_ones = [_kept(one, members[one.id]) for one in records]
    pairs = matched([work.found_of(told) for told in reversed(found.told)], kept_ones, place)
    parts: dict[int, list[Found]] = defaultdict(list)
    for one, kept in pairs:
        if kept is not None:
            parts[kept.record.id].append(one)
    new = [work.add(one) for one, kept in pairs if kept is None]
    seen = [one for one in records if one.id in parts]
    changed = [one.number for one in seen if work.refresh(one, members[one.id], parts[one.id])]
    gone = [work.lose(one) for one in records if one.id not in parts and one.gone_at is None]
    attend(tx, project, now)
    tell_new(tx, project, now, since_ever=stored.last_look(tx, project.id) is None)
    stored.keep_look(tx, project.id, look_of(found, now))
    touch(tx, [project.id])
    return Synced(tuple(new), tuple(changed), tuple(gone))


def _kept(record: IncidentRecord, members: Sequence[Member]) -> Kept:
    dropped = frozenset(one.series_id for one in members if one.dropped_at)
    return Kept(record, frozenset(one.series_id for one in members) - dropped, dropped)


@dataclass(frozen=True, slots=True)
class _Work:
    """One look on its way into the store."""

    tx: Transaction
    project: Project
    found: Situation
    now: datetime
    suspended: Sequence[Suspension]

    def found_of(self, told: Told) -> Found:
        """A series that moved more than once in one incident is its member once, with its largest move."""
        members: dict[int, Member] = {}
        ids = series_ids(self.tx, self.project.id, [change.series for change in told.incident.members])
        for row_id, change in zip(ids, told.incident.members, strict=True):
            move = (change.commit, change.last_good, change.rel, change.before, change.after)
            members.setdefault(row_id, Member(row_id, *move))
        return Found(told, members)

    def add(self, one: Found) -> int:
        told, members = one.told, list(one.members.values())
        columns = described(told, self.found, monitored=self._monitored(told))
        columns |= {"state": IncidentState.NEW.value, "first_seen": self.now, "changed_at": self.now}
        record = stored.add_incident(self.tx, self.project.id, columns)
        add_members(self.tx, record.id, members, first=True)
        event = Event(self.now, PERFCI, "state", "", record.state, record.headline)
        stored.add_events(self.tx, [(record.id, event)])
        self._into_ledger(record.id, told, members)
        return record.number

    def refresh(self, record: IncidentRecord, known: Sequence[Member], parts: Sequence[Found]) -> bool:
        """Write what is not as it was; answer whether that was anything."""
        told, members = parts[0].told, dict(parts[0].members)
        for part in parts[1:]:
            members |= {k: member for k, member in part.members.items() if k not in members}
        had = {one.series_id: one for one in known if one.dropped_at is None}
        if record.pinned:
            members = {k: had[k] for k in had.keys() - members.keys()} | members
            told = as_pinned(told, record, changes(self.tx, list(members.values())))
        moved = [one for k, one in members.items() if k not in had or had[k].move != one.move]
        add_members(self.tx, record.id, moved)
        drop_members(self.tx, record.id, had.keys() - members.keys(), self.now)
        self._into_ledger(record.id, told, moved)
        columns = described(told, self.found, monitored=self._monitored(told)) | {"gone_at": None}
        if record.pinned:
            columns["derived_id"] = record.derived_id
            columns["detail"] |= {name: record.detail.get(name) for name in ("suspects", "measure")}
        different = {name: value for name, value in columns.items() if getattr(record, name) != value}
        if not different:
            return bool(moved)
        stored.refresh(self.tx, record.id, different)
        stored.add_events(self.tx, [(record.id, event) for event in events_of(record, different, self.now)])
        if "gone_at" in different:
            self._see_again(record)
        return True

    def lose(self, record: IncidentRecord) -> int:
        """Untouched, it was nothing; one that somebody worked on keeps its state and says so."""
        stored.refresh(self.tx, record.id, {"gone_at": self.now})
        event = Event(self.now, PERFCI, "sync", "seen", "gone", SEEN_NO_MORE)
        if record.state is IncidentState.NEW and record.triaged_at is None and not record.pinned:
            columns = {"state": IncidentState.INVALID.value, "reason": SEEN_NO_MORE, "changed_at": self.now}
            if stored.change(self.tx, record.id, record.revision, columns):
                event = Event(self.now, PERFCI, "state", record.state, IncidentState.INVALID, SEEN_NO_MORE)
        stored.add_events(self.tx, [(record.id, event)])
        return record.number

    def _see_again(self, record: IncidentRecord) -> None:
        """It was put away because it was gone: it is new again, and nobody is told twice."""
        if record.state is IncidentState.INVALID and record.reason == SEEN_NO_MORE:
            columns = {"state": IncidentState.NEW.value, "reason": "", "changed_at": self.now}
            stored.change(self.tx, record.id, record.revision, columns)

    def _monitored(self, told: Told) -> bool:
        """Whether all that moved is in quarantine."""
        names = {(one.benchmark, one.metric) for one in self.suspended}
        moved = {(change.series.benchmark.name, change.series.metric.name) for change in told.incident.members}
        return bool(names) and all((name, "") in names or (name, metric) in names for name, metric in moved)

    def _into_ledger(self, row_id: int, told: Told, members: Sequence[Member]) -> None:
        if told.incident.kind in OF_COMMITS and told.incident.settled:
            record_moves(self.tx, self.project.id, row_id, members, self.now)
