"""One incident as people work on it: what is known, what they may do, and what a form of theirs asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any

from perfci.model import ChangePoint, IncidentKind, IncidentState, PerfciError, Series
from perfci.report.incidents import activity_log, notification_text
from perfci.report.incidents import incident_text as words
from perfci.service.incidents.change_request import asked_change
from perfci.service.incidents.serialize_incidents import Whole
from perfci.service.incidents.state_changes import ALLOWED, Change
from perfci.service.incidents.undo_change import undoable
from perfci.store.incidents.records import DATA, Event, IncidentRecord, Member
from perfci.store.jobs.delivery_queue import Delivery
from perfci.verdicts.incidents.step_causes import cost_of
from perfci_web.incidents.list_view import Entry

MOST_MEMBERS = 200
"""Series a page lists; all of them are in the JSON."""

DAYS = ("due_at", "accepted_until", "snoozed_until")
TEXTS = ("assignee", "reason", "issue_url", "fix_sha", "culprit_sha", "note")


@dataclass(frozen=True, slots=True)
class Row:
    """One series of an incident."""

    change: ChangePoint
    identity: str
    words: str
    worse: bool


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the history in words."""

    event: Event
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class IncidentPage:
    project: str
    entry: Entry
    rows: tuple[Row, ...]
    more: int
    history: tuple[Line, ...]
    deliveries: Sequence[Delivery]
    states: tuple[tuple[str, str], ...]
    """What it may become: the state's word and how people say it."""
    undo: str
    """The change of state that could be taken back, ``new → invalid``; empty where there is none."""

    @property
    def series(self) -> list[Series]:
        return [row.change.series for row in self.rows]


def incident_page(project: str, found: Whole, identities: Mapping[int, str]) -> IncidentPage:
    shown = found.members[:MOST_MEMBERS]
    record = found.record
    after = sorted(ALLOWED[record.state], key=list(IncidentState).index)
    return IncidentPage(
        project=project,
        entry=Entry(record),
        rows=tuple(_row(member, series, identities.get(member.series_id, "")) for member, series in shown),
        more=len(found.members) - len(shown),
        history=tuple(map(_line, reversed(found.events))),
        deliveries=found.deliveries,
        states=tuple((state.value, notification_text.STATES[state]) for state in after),
        undo=undo_of(record, found.events),
    )


def undo_of(record: IncidentRecord, history: Sequence[Event]) -> str:
    last = undoable(record, history)
    return activity_log.told("state", last.before, last.after, "") if last else ""


def typed_of(form: Mapping[str, str]) -> dict[str, str]:
    """What a person typed or chose, as against what the form came with: it says that under ``was.`` and the name."""
    named = ("state", "duplicate_of", *TEXTS, *DAYS)
    return {name: form[name] for name in named if name in form and form[name] != form.get(f"was.{name}", "")}


def change_of(form: Mapping[str, str]) -> Change:
    """What a form asks; an empty field of one that was filled empties it, a day ends at its midnight in UTC.

    A field that says what it was and is still that asks nothing.
    """
    form = {name: value for name, value in form.items() if value != form.get(f"was.{name}")}
    given: dict[str, Any] = {name: form[name].strip().replace("\r\n", "\n") for name in TEXTS if name in form}
    given |= {name: _end_of(form[name]) for name in DAYS if form.get(name)}
    given |= {"due_at": None} if form.get("due_at") == "" else {}
    if not given.get("note"):
        given.pop("note", None)
    if form.get("duplicate_of", "").strip():
        given["duplicate_of"] = form["duplicate_of"].strip().lstrip("#")
    if form.get("state"):
        given["state"] = form["state"]
    return asked_change(given)


def _row(member: Member, series: Series, identity: str) -> Row:
    change = member.change(series)
    return Row(change, identity, words.member(change), cost_of(change) > 0)


def _line(event: Event) -> Line:
    said = activity_log.told(event.what, event.before, event.after, event.text)
    return Line(event, activity_log.heading(event.what, event.text), said)


def _end_of(text: str) -> datetime:
    try:
        return datetime.combine(datetime.fromisoformat(text).date(), time(23, 59, 59), UTC)
    except ValueError as error:
        raise PerfciError(f"{text!r} is no day; expected for example 2026-05-04.") from error


def is_data(page: IncidentPage) -> bool:
    return page.entry.record.kind == DATA


def suspects_of(page: IncidentPage) -> Sequence[Mapping[str, Any]]:
    """Commits of the last look, where the kind of incident has any."""
    kinds = (IncidentKind.REGRESSION, IncidentKind.MIXED, IncidentKind.IMPROVEMENT)
    return page.entry.detail.get("suspects", ()) if page.entry.record.kind in kinds else ()
