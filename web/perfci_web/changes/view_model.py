"""The view model of the page of changes: one line a change, restricted by the lens and the address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from perfci.model import Series
from perfci.report.change_id import format_change_id
from perfci.report.change_list_text import changes_headline, confirmation_label
from perfci.report.incidents import notification_text
from perfci.store.column_conversions import series_identity
from perfci.store.incidents.recorded_changes import (
    ChangeCounts,
    ChangeFilter,
    RecordedChange,
    count_recorded_changes,
    load_recorded_changes,
)
from perfci.store.projects import Project
from perfci.store.series_archive import count_archived_by_hand
from perfci_web.lens import LensView, TimeWindow

PAGE_SIZE = 100
"""Rows of one page."""

MAX_EXPORTED, MAX_IN_FEED = 10_000, 50
"""Rows of a CSV or JSON file, and of a feed."""

DIRECTION_FILTERS: Mapping[str, str] = {"": "Everything", "worse": "Worse", "better": "Better"}
CONFIRMED_ONLY = "confirmed"


@dataclass(frozen=True, slots=True)
class ChangesQuery:
    """Which changes an address selects beside the lens: ``moved`` is worse, better or empty, ``state`` is
    confirmed or empty, ``commit`` a sha or empty; ``archived`` adds those of series archived by hand."""

    moved: str = ""
    state: str = ""
    commit: str = ""
    archived: bool = False
    page: int = 1

    @property
    def values(self) -> dict[str, str]:
        """The query of the address without the page."""
        values = {"moved": self.moved, "state": self.state, "commit": self.commit}
        values["archived"] = "1" if self.archived else ""
        return {name: value for name, value in values.items() if value}


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One line of the page; ``id`` is what the change is called everywhere."""

    recorded: RecordedChange
    id: str

    @property
    def series(self) -> Series:
        return self.recorded.change.series

    @property
    def incident_state_label(self) -> str:
        return notification_text.STATE_LABELS[self.recorded.state] if self.recorded.state else ""

    @property
    def confirmation(self) -> str:
        return confirmation_label(self.recorded.confirmed)


@dataclass(frozen=True, slots=True)
class ChangesView:
    """One page of changes; ``total_ever`` counts those that neither lens nor address would leave out."""

    project: str
    query: ChangesQuery
    headline: str
    rows: tuple[ChangeRow, ...]
    counts: ChangeCounts
    total_ever: int
    pages: int
    archived_series: int = 0

    @property
    def series(self) -> list[Series]:
        return [row.series for row in self.rows]


def parse_changes_query(arguments: Mapping[str, str]) -> ChangesQuery:
    """Read the query of an address; a value that makes no sense is left out."""
    moved, state, commit, page = (arguments.get(name, "") for name in ("moved", "state", "commit", "page"))
    return ChangesQuery(
        moved=moved if moved in DIRECTION_FILTERS else "",
        state=state if state == CONFIRMED_ONLY else "",
        commit=commit if re.fullmatch("[0-9a-f]{7,64}", commit) else "",
        archived=arguments.get("archived", "") == "1",
        page=max(1, int(page)) if page.isdecimal() and len(page) < 7 else 1,
    )


def build_change_filter(query: ChangesQuery, lens: LensView, window: TimeWindow) -> ChangeFilter:
    """Join an address and the lens; what one commit moved is shown whenever it was."""
    return ChangeFilter(
        worse=query.moved == "worse" if query.moved else None,
        confirmed_only=query.state == CONFIRMED_ONLY or lens.lens.confirmed_only,
        commit=query.commit,
        branch=lens.lens.branch,
        since=None if query.commit else window.since,
        places=lens.places,
        with_archived=query.archived,
    )


def build_changes_view(
    tx: Session, project: Project, query: ChangesQuery, lens: LensView, window: TimeWindow
) -> ChangesView:
    """Build one page."""
    chosen = build_change_filter(query, lens, window)
    counts = count_recorded_changes(tx, project.id, chosen)
    pages = max(1, -(-counts.total // PAGE_SIZE))
    page = min(query.page, pages)
    changes = load_recorded_changes(tx, project.id, chosen, limit=PAGE_SIZE, offset=(page - 1) * PAGE_SIZE)
    return ChangesView(
        project=project.slug,
        query=replace(query, page=page),
        headline=changes_headline(
            counts.total, counts.worse, window.text, confirmed_only=chosen.confirmed_only
        ),
        rows=tuple(
            ChangeRow(
                recorded,
                format_change_id(
                    series_identity(project.slug, recorded.change.series), recorded.change.commit
                ),
            )
            for recorded in changes
        ),
        counts=counts,
        total_ever=count_recorded_changes(tx, project.id, ChangeFilter()).total,
        pages=pages,
        archived_series=count_archived_by_hand(tx, project.id),
    )
