"""The view model of one incident: its facts, series, history, and the states it may change to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from perfci.model import ChangePoint, IncidentKind, IncidentState, Series, TailVerdict
from perfci.report.incidents import activity_log_text, notification_text
from perfci.report.series_trend import Trend
from perfci.service.incidents.incident_update_rules import ALLOWED_TRANSITIONS
from perfci.service.incidents.load_incidents import IncidentDetail
from perfci.service.incidents.triage import find_undoable_change
from perfci.store.incidents.incident_records import DATA_KIND, IncidentEvent, IncidentRecord
from perfci.store.jobs.notification_queue import Delivery
from perfci_web.incidents.incident_list_view_model import IncidentEntry

MAX_TRENDS, COMMITS_AROUND = 12, 30
"""Series whose trend a page draws, and the commits that it shows on either side of the change."""

MAX_MEMBERS = 200
"""Series a page lists; all of them are in the JSON."""

KINDS_WITH_CANDIDATES = (IncidentKind.REGRESSION, IncidentKind.MIXED, IncidentKind.IMPROVEMENT)


@dataclass(frozen=True, slots=True)
class IncidentSeriesRow:
    """One series of an incident; ``worse`` is whether its change is for the worse, ``tail`` what its tail did
    in the pairs that the change was measured on, ``trend`` the commits around it for the first rows."""

    change: ChangePoint
    identity: str
    worse: bool
    tail: TailVerdict | None = None
    trend: Trend | None = None


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One line of the history in words."""

    event: IncidentEvent
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class IncidentView:
    """The page of one incident.

    ``states`` are the states it may change to, each with its label. ``undo_text`` describes the change of
    state that could be undone (``new → invalid``), empty where there is none.
    """

    project: str
    entry: IncidentEntry
    rows: tuple[IncidentSeriesRow, ...]
    hidden_rows: int
    history: tuple[HistoryEntry, ...]
    deliveries: Sequence[Delivery]
    states: tuple[tuple[str, str], ...]
    undo_text: str

    @property
    def series(self) -> list[Series]:
        return [row.change.series for row in self.rows]

    @property
    def main_trend(self) -> Trend | None:
        """The trend of the largest change, None where no commit of it is measured any more."""
        trend = self.rows[0].trend if self.rows else None
        return trend if trend and trend.measured_dots else None


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The place of an incident among the open ones, with the numbers before and after it."""

    place: int
    count: int
    previous: int | None
    following: int | None


def find_queue_place(queue: Sequence[IncidentRecord], number: int) -> QueuePlace:
    """Find an incident in the queue of open ones, which also holds it where it is closed."""
    numbers = [record.number for record in queue]
    index = numbers.index(number)
    previous = numbers[index - 1] if index else None
    following = numbers[index + 1] if index + 1 < len(numbers) else None
    return QueuePlace(index + 1, len(numbers), previous, following)


def build_incident_view(
    project: str,
    incident: IncidentDetail,
    identities: Mapping[int, str],
    trends: Mapping[Series, Trend] = MappingProxyType({}),
) -> IncidentView:
    """Build the view of an incident; ``identities`` are the public ids of its series by row id, ``trends``
    the commits around its changes."""
    shown = incident.members[:MAX_MEMBERS]
    record = incident.record
    rows = []
    for member, series in shown:
        change = member.to_change_point(series)
        identity = identities.get(member.series_id, "")
        tail = incident.tails.get(member.series_id)
        worse = change.log_cost_change > 0
        rows.append(IncidentSeriesRow(change, identity, worse=worse, tail=tail, trend=trends.get(series)))
    history = []
    for event in reversed(incident.events):
        heading = activity_log_text.activity_heading(event.action, event.text)
        text = activity_log_text.activity_text(event.action, event.before, event.after, event.text)
        history.append(HistoryEntry(event, heading, text))
    next_states = sorted(ALLOWED_TRANSITIONS[record.state], key=list(IncidentState).index)
    return IncidentView(
        project=project,
        entry=IncidentEntry(record),
        rows=tuple(rows),
        hidden_rows=len(incident.members) - len(shown),
        history=tuple(history),
        deliveries=incident.deliveries,
        states=tuple((state.value, notification_text.STATE_LABELS[state]) for state in next_states),
        undo_text=describe_undoable_change(record, incident.events),
    )


def describe_undoable_change(record: IncidentRecord, history: Sequence[IncidentEvent]) -> str:
    """Describe the last change of state if it can be undone."""
    change = find_undoable_change(record, history)
    return activity_log_text.activity_text("state", change.before, change.after, "") if change else ""


def is_missing_data_incident(page: IncidentView) -> bool:
    return page.entry.record.kind == DATA_KIND


def list_candidate_commits(page: IncidentView) -> Sequence[Mapping[str, Any]]:
    """Return the candidate commits of the last evaluation, where the kind of incident has any."""
    if page.entry.record.kind not in KINDS_WITH_CANDIDATES:
        return ()
    commits: Sequence[Mapping[str, Any]] = page.entry.detail.get("candidate_commits", ())
    return commits
