"""The view model of one incident: its facts, series, history, and the states it may change to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from perfci.model import ChangePoint, IncidentKind, IncidentState, Series, TailVerdict
from perfci.report.change_id import format_change_id
from perfci.report.charts.scene import Scene
from perfci.report.charts.small_multiples import SmallMultiple, build_small_multiples
from perfci.report.incidents import activity_log_text, notification_text
from perfci.report.incidents.incident_text import format_bisect_command
from perfci.report.series_trend import Trend
from perfci.service.incidents.incident_update_rules import ALLOWED_TRANSITIONS
from perfci.service.incidents.load_incidents import IncidentDetail
from perfci.service.incidents.triage import find_undoable_change
from perfci.store.incidents.incident_records import DATA_KIND, IncidentEvent, IncidentRecord
from perfci.store.jobs.notification_queue import Delivery
from perfci_web.incidents.incident_list_view_model import IncidentEntry

MAX_TRENDS, COMMITS_AROUND = 9, 30
"""Series whose trend a page draws, one of them large, and the commits on either side of the change."""

SERIES_KEY, IDENTITY_LENGTH = "series", 12
"""What chooses the series of the large chart in an address: the beginning of its identity."""

MAX_ROWS_UNFOLDED = 12
"""Series that the table lists before the reader unfolds it."""

MAX_MEMBERS = 200
"""Series a page lists; all of them are in the JSON."""

MAX_IN_PANE = 20
"""Open incidents that stand beside the page of one of them; the list has all."""

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
    picture: Scene | None = None

    @property
    def change_id(self) -> str:
        """What the change is called everywhere."""
        return format_change_id(self.identity, self.change.commit)

    @property
    def key(self) -> str:
        """What an address calls it."""
        return self.identity[:IDENTITY_LENGTH]


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
    def drawn_rows(self) -> list[IncidentSeriesRow]:
        """The rows whose trend is drawn: those that still have a measured commit."""
        return [row for row in self.rows if row.trend and row.trend.measured_dots]

    def find_main_row(self, key: str) -> IncidentSeriesRow | None:
        """Find the row that an address calls for, else the largest change that is drawn."""
        drawn = self.drawn_rows
        return next((row for row in drawn if key and row.key == key), drawn[0] if drawn else None)


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The place of an incident among the open ones, with the numbers before and after it.

    ``entries`` are the incidents around it, in their order, ``hidden_before`` and ``hidden_after`` how many
    are left out at either end.
    """

    place: int
    count: int
    previous: int | None
    following: int | None
    entries: tuple[IncidentEntry, ...]
    hidden_before: int
    hidden_after: int


def find_queue_place(queue: Sequence[IncidentEntry], number: int) -> QueuePlace:
    """Find an incident in the queue of open ones, which also holds it where it is closed."""
    numbers = [entry.record.number for entry in queue]
    index = numbers.index(number)
    # Near the end of the queue more of what is before it is shown.
    start = max(0, min(index - MAX_IN_PANE // 2, len(queue) - MAX_IN_PANE))
    entries = tuple(queue[start : start + MAX_IN_PANE])
    return QueuePlace(
        place=index + 1,
        count=len(numbers),
        previous=numbers[index - 1] if index else None,
        following=numbers[index + 1] if index + 1 < len(numbers) else None,
        entries=entries,
        hidden_before=start,
        hidden_after=len(queue) - start - len(entries),
    )


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
    rows = _draw_small(rows)
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


def _draw_small(rows: Sequence[IncidentSeriesRow]) -> list[IncidentSeriesRow]:
    """Draw the trends of rows small, on common axes."""
    trends = [row.trend for row in rows if row.trend]
    pictures = iter(build_small_multiples([SmallMultiple(trend.series.label, (trend,)) for trend in trends]))
    return [replace(row, picture=next(pictures)) if row.trend else row for row in rows]


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


def build_bisect_command(page: IncidentView) -> str:
    """The command that finds which of several candidate commits moved the largest change, else nothing."""
    record = page.entry.record
    if not (record.last_good and page.rows and len(list_candidate_commits(page)) > 1):
        return ""
    return format_bisect_command(record.last_good, record.commit, page.rows[0].change.series)
