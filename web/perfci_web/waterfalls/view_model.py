"""The view model of a waterfall: from which commit it counts, its steps with their commits, and its JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from sqlalchemy.orm import Session

from perfci.history.point_columns import Columns
from perfci.model import Commit
from perfci.number_format import format_day
from perfci.report.charts.waterfall import Waterfall, WaterfallStep, build_waterfall, level_at
from perfci.report.serializers import serialize_change_size, serialize_series
from perfci.store.incidents.incident_records import IncidentRecord
from perfci.store.incidents.incident_store import (
    find_incidents_by_number,
    load_incident_numbers_of_series,
)
from perfci.store.projects import Project
from perfci.store.queries.comparisons.release_commits import (
    find_last_measured_commit_id,
    find_tagged_commit,
)
from perfci.store.queries.query_records import SeriesRecord
from perfci.store.queries.series_commits_machines import load_commits_by_id, load_commits_by_sha
from perfci_web.application_context import web_context
from perfci_web.load_series_trends import SeriesTrend, load_series_trends
from perfci_web.url_lookups import require_commit

SINCE_KEY, ALL = "since", "all"

CSV_COLUMNS = (
    "commit",
    "last_good",
    "committed_at",
    "author",
    "added",
    "sum_after",
    "before",
    "after",
    "relative_change",
    "ci_lo",
    "ci_hi",
    "state",
    "incident",
    "assignee",
)

SPANS: Mapping[str, str] = {"30d": "30 days", "90d": "90 days", "1y": "1 year", ALL: "all"}
"""Starts that the page offers, before the last commit of the series."""

SPAN_DAYS, MAX_SPAN_DAYS = {"d": 1, "y": 365}, 7300

MAX_SINCE_LENGTH = 200


@dataclass(frozen=True, slots=True)
class WaterfallRow:
    """A step with its commit and the incident that has it."""

    step: WaterfallStep
    commit: Commit | None
    incident: IncidentRecord | None


@dataclass(frozen=True, slots=True)
class WaterfallView:
    """What moved a series since a commit; ``since`` is what the address says, ``start_name`` what a reader
    calls the start. ``waterfall`` is None where the series has no value."""

    project: str
    record: SeriesRecord
    since: str
    start_name: str
    start: Commit | None
    end: Commit | None
    waterfall: Waterfall | None
    rows: tuple[WaterfallRow, ...] = ()

    @property
    def headline(self) -> str:
        if self.waterfall is None:
            return f"{self.record.series.label} has no value"
        return f"{self.record.series.label} since {self.start_name}: {self.waterfall.sentence}"


def load_waterfall(tx: Session, project: Project, record: SeriesRecord, since: str) -> WaterfallView:
    """Load what moved a series since a tag, commit, date or span; without one since the last release."""
    trends = load_series_trends(tx, project.slug, [record.id])
    trend = trends.get(record.id)
    places = np.flatnonzero(~np.isnan(trend.columns["level"])) if trend else np.array([], dtype=int)
    if trend is None or not len(places):
        return WaterfallView(project.slug, record, since, since, None, None, None)
    name, since, place = _find_start(tx, project, record, trend, places, since[:MAX_SINCE_LENGTH])
    marks = [mark for mark in trend.marks if mark.state != "refuted" and mark.index > place]
    values = trend.columns["level"]
    level = level_at(trend.levels, place)
    now = trend.current_level
    assert now is not None
    waterfall = build_waterfall(
        record.series.metric, float(values[place]) if level is None else level, now, marks
    )
    ids = [int(trend.columns["commit_id"][index]) for index in (place, places[-1])]
    ends = load_commits_by_id(tx, ids=ids)
    return WaterfallView(
        project.slug,
        record,
        since,
        name,
        ends.get(ids[0]),
        ends.get(ids[1]),
        waterfall,
        _build_rows(tx, project, record, waterfall),
    )


def serialize_waterfall(view: WaterfallView) -> dict[str, Any]:
    """Return a waterfall for programs, in the unit of the metric; its numbers add up as those of the page."""
    waterfall = view.waterfall
    document: dict[str, Any] = {
        "project": view.project,
        "series": serialize_series(view.record.series),
        "since": view.since,
        "sentence": view.headline,
        "start_commit": view.start.sha if view.start else None,
        "end_commit": view.end.sha if view.end else None,
    }
    if waterfall is None:
        return document | {"start": None, "now": None, "steps": [], "remainder": None, "small_changes": 0}
    return document | {
        "start": waterfall.value_of(waterfall.start),
        "now": waterfall.value_of(waterfall.now),
        "steps": [_serialize_row(row, waterfall) for row in view.rows],
        "remainder": waterfall.value_of(waterfall.remainder),
        "small_changes": waterfall.small,
    }


def _serialize_row(row: WaterfallRow, waterfall: Waterfall) -> dict[str, Any]:
    mark, commit, incident = row.step.mark, row.commit, row.incident
    return {
        "commit": mark.commit,
        "last_good": mark.last_good,
        "committed_at": commit.committed_at.isoformat() if commit and commit.committed_at else None,
        "author": commit.author if commit else "",
        "added": waterfall.value_of(row.step.size),
        "sum_after": waterfall.value_of(row.step.sum_after),
        **serialize_change_size(mark.change),
        "state": mark.state,
        "incident": incident.number if incident else None,
        "assignee": incident.assignee if incident else "",
    }


def _build_rows(
    tx: Session, project: Project, record: SeriesRecord, waterfall: Waterfall
) -> tuple[WaterfallRow, ...]:
    commits = load_commits_by_sha(tx, project.slug, {step.mark.commit for step in waterfall.steps})
    numbers = {sha: number for (_, sha), number in load_incident_numbers_of_series(tx, [record.id]).items()}
    incidents = find_incidents_by_number(tx, project.id, set(numbers.values()))
    return tuple(
        WaterfallRow(step, commits.get(step.mark.commit), incidents.get(numbers.get(step.mark.commit, 0)))
        for step in waterfall.steps
    )


def _find_start(
    tx: Session, project: Project, record: SeriesRecord, trend: SeriesTrend, places: Columns, since: str
) -> tuple[str, str, int]:
    """Find what to call the start, what the address says for it, and its place in the history."""
    name, address, until = _resolve_start(tx, project, trend, places, since)
    commit_id = find_last_measured_commit_id(tx, record.id, until) if until is not None else None
    if commit_id is not None:
        at = np.flatnonzero(trend.columns["commit_id"] == commit_id)
        if len(at) and at[0] in places:
            return name, address, int(at[0])
    return "its first value", address, int(places[0])


def _resolve_start(
    tx: Session, project: Project, trend: SeriesTrend, places: Columns, since: str
) -> tuple[str, str, Commit | datetime | None]:
    """Find the commit or date that an address means, None for the beginning."""
    if not since:
        release = find_tagged_commit(tx, project.id, web_context().load_policies(project).history.releases)
        return (release[0], *release) if release else ("", ALL, None)
    if since == ALL:
        return "", ALL, None
    moment = _parse_moment(tx, trend, places, since)
    if moment is not None:
        return format_day(moment), since, moment
    tagged = find_tagged_commit(tx, project.id, re.sub(r"([*?[])", r"[\1]", since))
    if tagged is not None:
        return since, since, tagged[1]
    commit = require_commit(tx, project.slug, since)
    return commit.sha[:10], since, commit


def _parse_moment(tx: Session, trend: SeriesTrend, places: Columns, since: str) -> datetime | None:
    """Read a date (``2026-03-01``: its beginning), or a span before the last commit."""
    if span := re.fullmatch(r"([0-9]{1,4})([dy])", since):
        last = load_commits_by_id(tx, ids=[int(trend.columns["commit_id"][places[-1]])])
        end = next(iter(last.values())).committed_at or web_context().clock()
        return end - timedelta(days=min(MAX_SPAN_DAYS, int(span[1]) * SPAN_DAYS[span[2]]))
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", since):
        return None
    try:
        return datetime.fromisoformat(since).replace(tzinfo=UTC)
    except ValueError:
        return None
