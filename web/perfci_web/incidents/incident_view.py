"""One incident as people work on it: what is known, what they may do, and what a form of theirs asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any

from perfci.model import ChangePoint, IncidentKind, IncidentState, PerfciError, Series
from perfci.report.incidents import activity_log, notification_text
from perfci.report.incidents import incident_text as words
from perfci.service.incidents.change_request import parse_incident_update
from perfci.service.incidents.serialize_incidents import IncidentDetail
from perfci.service.incidents.state_changes import ALLOWED_TRANSITIONS, IncidentUpdate
from perfci.service.incidents.undo_change import find_undoable_change
from perfci.store.incidents.records import DATA_KIND, IncidentEvent, IncidentMember, IncidentRecord
from perfci.store.jobs.delivery_queue import Delivery
from perfci.verdicts.incidents.step_causes import compute_log_cost
from perfci_web.incidents.list_view import IncidentEntry

MAX_MEMBERS = 200
"""Series a page lists; all of them are in the JSON."""

DATE_FIELDS = ("due_at", "accepted_until", "snoozed_until")
TEXT_FIELDS = ("assignee", "reason", "issue_url", "fix_sha", "culprit_sha", "note")


@dataclass(frozen=True, slots=True)
class IncidentSeriesRow:
    """One series of an incident."""

    change: ChangePoint
    identity: str
    words: str
    worse: bool


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One line of the history in words."""

    event: IncidentEvent
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class IncidentView:
    project: str
    entry: IncidentEntry
    rows: tuple[IncidentSeriesRow, ...]
    hidden_rows: int
    history: tuple[HistoryEntry, ...]
    deliveries: Sequence[Delivery]
    states: tuple[tuple[str, str], ...]
    """What it may become: the state's word and how people say it."""
    undo_text: str
    """The change of state that could be taken back, ``new → invalid``; empty where there is none."""

    @property
    def series(self) -> list[Series]:
        return [row.change.series for row in self.rows]


def build_incident_view(
    project: str, incident: IncidentDetail, identities: Mapping[int, str]
) -> IncidentView:
    shown = incident.members[:MAX_MEMBERS]
    record = incident.record
    after = sorted(ALLOWED_TRANSITIONS[record.state], key=list(IncidentState).index)
    return IncidentView(
        project=project,
        entry=IncidentEntry(record),
        rows=tuple(
            _build_row(member, series, identities.get(member.series_id, "")) for member, series in shown
        ),
        hidden_rows=len(incident.members) - len(shown),
        history=tuple(map(_build_history_entry, reversed(incident.events))),
        deliveries=incident.deliveries,
        states=tuple((state.value, notification_text.STATE_LABELS[state]) for state in after),
        undo_text=describe_undo(record, incident.events),
    )


def describe_undo(record: IncidentRecord, history: Sequence[IncidentEvent]) -> str:
    last = find_undoable_change(record, history)
    return activity_log.activity_text("state", last.before, last.after, "") if last else ""


def changed_form_values(form: Mapping[str, str]) -> dict[str, str]:
    """What a person typed or chose, as against what the form came with: it says that under ``was.`` and the name."""
    named = ("state", "duplicate_of", *TEXT_FIELDS, *DATE_FIELDS)
    return {name: form[name] for name in named if name in form and form[name] != form.get(f"was.{name}", "")}


def parse_change(form: Mapping[str, str]) -> IncidentUpdate:
    """What a form asks; an empty field of one that was filled empties it, a day ends at its midnight in UTC.

    A field that says what it was and is still that asks nothing.
    """
    form = {name: value for name, value in form.items() if value != form.get(f"was.{name}")}
    given: dict[str, Any] = {
        name: form[name].strip().replace("\r\n", "\n") for name in TEXT_FIELDS if name in form
    }
    given |= {name: _end_of_day(form[name]) for name in DATE_FIELDS if form.get(name)}
    given |= {"due_at": None} if form.get("due_at") == "" else {}
    if not given.get("note"):
        given.pop("note", None)
    if form.get("duplicate_of", "").strip():
        given["duplicate_of"] = form["duplicate_of"].strip().lstrip("#")
    if form.get("state"):
        given["state"] = form["state"]
    return parse_incident_update(given)


def _build_row(member: IncidentMember, series: Series, identity: str) -> IncidentSeriesRow:
    change = member.to_change_point(series)
    return IncidentSeriesRow(change, identity, words.member_sentence(change), compute_log_cost(change) > 0)


def _build_history_entry(event: IncidentEvent) -> HistoryEntry:
    said = activity_log.activity_text(event.action, event.before, event.after, event.text)
    return HistoryEntry(event, activity_log.activity_heading(event.action, event.text), said)


def _end_of_day(text: str) -> datetime:
    try:
        return datetime.combine(datetime.fromisoformat(text).date(), time(23, 59, 59), UTC)
    except ValueError as error:
        raise PerfciError(f"{text!r} is no day; expected for example 2026-05-04.") from error


def is_missing_data(page: IncidentView) -> bool:
    return page.entry.record.kind == DATA_KIND


def candidate_commits(page: IncidentView) -> Sequence[Mapping[str, Any]]:
    """Commits of the last look, where the kind of incident has any."""
    kinds = (IncidentKind.REGRESSION, IncidentKind.MIXED, IncidentKind.IMPROVEMENT)
    return page.entry.detail.get("suspects", ()) if page.entry.record.kind in kinds else ()
