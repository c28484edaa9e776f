"""One benchmark in all its places: which small charts its page draws, and whether the places agree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy.orm import Session

from perfci.model import CPU_METRIC_PREFIX, Series
from perfci.report.charts.build_graph_scene import MAX_LINES, first_level
from perfci.report.charts.scene import Scene
from perfci.report.charts.small_multiples import SmallMultiple, build_small_multiples
from perfci.report.comparisons.place_agreement import (
    PlaceHistory,
    PlaceMove,
    agreement_sentence,
    find_common_moves,
)
from perfci.report.serializers import serialize_series
from perfci.report.series_places import SeriesPlaces, short_variant_text
from perfci.report.series_trend import ChangeMark, Trend
from perfci.store.queries.query_records import SeriesRecord
from perfci.store.queries.series_commits_machines import load_commit_ids_by_sha, load_commits_newest_first
from perfci_web.load_series_trends import SeriesTrend, load_series_trends, show_whole_histories
from perfci_web.page_urls import PARAMETER_PREFIX
from perfci_web.series.view_model import find_namesakes

METRIC_KEY, SPLIT_KEY, CHARTS_KEY = "metric", "split", "charts"

SPLITS = {"": "place", "machine": "machine", "variant": "variant"}

MAX_CHARTS = 12
"""Small charts of one page; further ones are a link away."""

RECENT_COMMITS = 200
"""The newest commits, in which places agree or disagree."""


@dataclass(frozen=True, slots=True)
class ChoiceLink:
    """A choice of what the charts show, as the query that its link has."""

    label: str
    query: Mapping[str, str]
    is_current: bool


@dataclass(frozen=True, slots=True)
class DrawnPlace:
    """One place of the benchmark; the trend is its whole history with neighbours merged."""

    label: str
    trend: Trend
    history: PlaceHistory

    @property
    def series(self) -> Series:
        return self.trend.series

    @property
    def last_change(self) -> ChangeMark | None:
        return next((mark for mark in reversed(self.trend.marks) if mark.state != "refuted"), None)

    @property
    def ratio(self) -> float | None:
        """The level of today against the first one."""
        level = self.trend.current_level
        return None if level is None else level / first_level(self.trend)


@dataclass(frozen=True, slots=True)
class PlacesChart:
    """A small chart: one place, or all places of a machine or variant."""

    title: str
    places: tuple[DrawnPlace, ...]
    scene: Scene | None


@dataclass(frozen=True, slots=True)
class PlacesSelection:
    """What an address chooses of a benchmark, and the links to what else it may choose."""

    metric: str
    query: Mapping[str, str]
    records: tuple[SeriesRecord, ...]
    judged: bool
    metrics: tuple[ChoiceLink, ...]
    other_clock: ChoiceLink | None
    parameters: tuple[ChoiceLink, ...]
    splits: tuple[ChoiceLink, ...]
    split: str
    charts_page: int

    @property
    def series(self) -> list[Series]:
        return [record.series for record in self.records]


@dataclass(frozen=True, slots=True)
class BenchmarkPlaces:
    """The charts of a benchmark and what they say together."""

    selection: PlacesSelection
    places: tuple[DrawnPlace, ...]
    charts: tuple[PlacesChart, ...]
    commits: int
    more_charts: int

    @property
    def sentence(self) -> str:
        """Whether the places moved together."""
        if not self.selection.judged:
            return "Shown, not judged: no change of level is looked for"
        direction = self.selection.records[0].series.metric.direction
        return agreement_sentence([place.history for place in self.places], direction, self.commits)


def select_places(records: Sequence[SeriesRecord], query: Mapping[str, str]) -> PlacesSelection | None:
    """Select the metric, the parameters and the places that an address asks for; judged metrics come first.

    ``records`` are all series of a benchmark, those measured last first. None where nothing was measured.
    """
    measured = [record for record in records if record.points]
    clocks = _group_clocks(measured)
    names = [name for group in clocks for name in group]
    if not names:
        return None
    metric = query.get(METRIC_KEY, "") if query.get(METRIC_KEY, "") in names else names[0]
    of_metric = [record for record in measured if record.series.metric.name == metric]
    cells = sorted({record.series.parameters for record in of_metric}, key=_parameters_label)
    wanted = {name: value for name, value in query.items() if name.startswith(PARAMETER_PREFIX)}
    matching = [cell for cell in cells if wanted.items() <= _parameters_query(cell).items()]
    if not matching:
        return None
    parameters = matching[0]
    chosen = [record for record in of_metric if record.series.parameters == parameters]
    places = find_namesakes(chosen[0], chosen)
    split = query.get(SPLIT_KEY, "") if query.get(SPLIT_KEY, "") in SPLITS else ""
    page = query.get(CHARTS_KEY, "")
    base = {METRIC_KEY: metric, **_parameters_query(parameters), SPLIT_KEY: split}
    own_clocks = next(group for group in clocks if metric in group)
    return PlacesSelection(
        metric,
        base,
        tuple(places),
        any(not record.is_informational for record in of_metric),
        tuple(ChoiceLink(group[0], {**base, METRIC_KEY: group[0]}, metric in group) for group in clocks),
        next(
            (
                ChoiceLink(_clock_label(name), {**base, METRIC_KEY: name}, False)
                for name in own_clocks
                if name != metric
            ),
            None,
        ),
        tuple(
            ChoiceLink(
                _parameters_label(cell),
                {METRIC_KEY: metric, **_parameters_query(cell), SPLIT_KEY: split},
                cell == parameters,
            )
            for cell in cells
        ),
        _split_links([record.series for record in places], base, split),
        split,
        int(page) if page.isascii() and page.isdigit() and 0 < len(page) < 4 else 1,
    )


def load_places(
    tx: Session, project: str, selection: PlacesSelection, *, all_places: bool = False
) -> BenchmarkPlaces:
    """Load the places of one page of charts; with ``all_places`` all of them, and no chart."""
    groups = _group_places(selection)
    start = 0 if all_places else MAX_CHARTS * (max(1, selection.charts_page) - 1)
    if start >= len(groups):
        start = 0
    shown = groups if all_places else groups[start : start + MAX_CHARTS]
    records = [record for _, group in shown for record in group]
    trends = load_series_trends(tx, project, [record.id for record in records])
    drawn = show_whole_histories(tx, project, trends)
    recent = [
        commit.sha
        for commit in load_commits_newest_first(tx, project, limit=RECENT_COMMITS)
        if not commit.dirty
    ]
    order = {sha: number for number, sha in enumerate(reversed(recent))}
    recent_ids = list(load_commit_ids_by_sha(tx, project, recent).values())
    labels = SeriesPlaces(selection.series)
    places = {
        record.id: _build_place(labels, trends[record.id], drawn[record.id], order, recent_ids)
        for record in records
        if record.id in trends
    }
    charts = (
        []
        if all_places
        else _build_charts(
            [
                (title, [places[record.id] for record in group if record.id in places])
                for title, group in shown
            ],
            selection.split,
        )
    )
    return BenchmarkPlaces(
        selection, tuple(places.values()), tuple(charts), len(recent), len(groups) - start - len(shown)
    )


def serialize_place(place: DrawnPlace) -> dict[str, Any]:
    """Return one row of the JSON and the CSV."""
    change, level = place.last_change, place.trend.current_level
    history = place.history
    return {
        **serialize_series(place.series),
        "place": place.label,
        "level": level,
        "ratio_to_first_level": place.ratio,
        "measured_recently": history.measured,
        "recent_ratio": history.ratio if history.measured else None,
        "recent_move": history.tone(place.series.metric.direction) if history.measured else "",
        "last_change_commit": change.commit if change else "",
        "last_change_ratio": change.ratio if change else None,
        "last_change_state": change.state if change else "",
    }


def serialize_places(charted: BenchmarkPlaces) -> dict[str, Any]:
    """Return what the charts say together."""
    return {
        "metric": charted.selection.metric,
        "parameters": dict(charted.selection.records[0].series.parameters),
        "commits": charted.commits,
        "sentence": charted.sentence,
        "moved_together": [
            {"commit": sha, "places": names}
            for sha, names in find_common_moves(place.history for place in charted.places)
        ],
        "places": [serialize_place(place) for place in charted.places],
    }


def _group_clocks(records: Iterable[SeriesRecord]) -> list[list[str]]:
    """The metrics, judged ones first; those of one pair of clocks together, the judged clock first."""
    names: dict[str, bool] = {}
    for record in sorted(records, key=lambda record: record.id):
        name = record.series.metric.name
        names[name] = names.get(name, False) or not record.is_informational
    groups: dict[str, list[str]] = {}
    for name in names:
        own = name.removeprefix(CPU_METRIC_PREFIX)
        groups.setdefault(own if own in names else name, []).append(name)
    for group in groups.values():
        group.sort(key=lambda name: (not names[name], not name.startswith(CPU_METRIC_PREFIX)))
    return sorted(groups.values(), key=lambda group: not names[group[0]])


def _clock_label(name: str) -> str:
    return "CPU time" if name.startswith(CPU_METRIC_PREFIX) else "Wall time"


def _parameters_label(parameters: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in parameters) or "no parameters"


def _parameters_query(parameters: Sequence[tuple[str, str]]) -> dict[str, str]:
    return {f"{PARAMETER_PREFIX}{name}": value for name, value in parameters}


def _split_links(series: Sequence[Series], base: Mapping[str, str], split: str) -> tuple[ChoiceLink, ...]:
    """Offer a chart for each machine or variant where several places have one in common."""
    machines, variants = {each.machine for each in series}, {each.variant for each in series}
    if not 1 < len(machines) < len(series) and not 1 < len(variants) < len(series):
        return ()
    return tuple(
        ChoiceLink(f"one for each {label}", {**base, SPLIT_KEY: key}, key == split)
        for key, label in SPLITS.items()
    )


def _group_places(selection: PlacesSelection) -> list[tuple[str, list[SeriesRecord]]]:
    """The places of each chart, with its title: those measured last come first."""
    labels = SeriesPlaces(selection.series)
    groups: dict[str, list[SeriesRecord]] = {}
    for record in selection.records:
        groups.setdefault(_chart_title(record.series, selection.split, labels), []).append(record)
    return list(groups.items())


def _chart_title(series: Series, split: str, labels: SeriesPlaces) -> str:
    if split == "machine":
        return series.machine.label
    if split == "variant":
        return short_variant_text(series.variant) or "no variant"
    return labels.label(series) or series.machine.label or "unnamed machine"


def _build_place(
    labels: SeriesPlaces,
    trend: SeriesTrend,
    drawn: Trend,
    order: Mapping[str, int],
    recent_ids: Sequence[int],
) -> DrawnPlace:
    moves = [
        PlaceMove(order.get(mark.last_good, -1) + 1, order[mark.commit], mark.commit, mark.ratio)
        for mark in trend.marks
        if mark.state != "refuted" and mark.commit in order
    ]
    label = labels.label(trend.series) or trend.series.machine.label or "unnamed machine"
    measured = trend.columns["commit_id"][~np.isnan(trend.columns["level"])]
    is_recent = bool(np.isin(measured, recent_ids).any())
    return DrawnPlace(label, drawn, PlaceHistory(label, is_recent, tuple(moves)))


def _build_charts(groups: Sequence[tuple[str, Sequence[DrawnPlace]]], split: str) -> list[PlacesChart]:
    """Draw each group; only where a chart may hold several lines they have names."""
    multiples = [
        SmallMultiple(
            title,
            tuple(place.trend for place in places[:MAX_LINES]),
            tuple(place.label for place in places[:MAX_LINES]) if split else (),
        )
        for title, places in groups
    ]
    scenes = build_small_multiples(multiples)
    return [
        PlacesChart(title, tuple(places), scene)
        for (title, places), scene in zip(groups, scenes, strict=True)
    ]
