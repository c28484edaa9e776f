"""What monitoring reads: newest levels for Prometheus, points of many series for Grafana."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from perfci.auth.permissions import AccessRequirement
from perfci.history.newest_levels import NewestLevel, load_newest_levels
from perfci.history.series_histories import JudgedHistories
from perfci.model import Commit, Series
from perfci.net.api_schemas import monitoring as shapes
from perfci.report.escaping import make_printable
from perfci.report.series_places import SeriesPlaces
from perfci.store.incidents.incident_lists import count_and_load_open_incidents
from perfci.store.queries.paged_lists import SeriesListItem, load_series_page
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply, StreamedAnswer

MAX_LABEL_LENGTH = 500

SERIES_LABELS = ("benchmark", "parameters", "metric", "unit", "direction", "machine", "variant")


def scrape_levels(call: Call) -> Reply:
    """Return the newest level of each series in the text format that Prometheus scrapes."""
    query: shapes.LevelsQuery = call.query
    project = call.required_project
    with call.store.read() as tx:
        items = load_series_page(
            tx, project.id, benchmark=query.benchmark, metric=query.metric, after=0, limit=query.limit + 1
        )
        chosen = items[: query.limit]
        levels = load_newest_levels(tx, project.slug, {item.id for item in chosen})
        open_incidents, _ = count_and_load_open_incidents(tx, project.id, limit=1)
    exposition = ProjectLevels(project.slug, chosen, levels, open_incidents, len(items) > query.limit)
    return Reply(generate_latest(exposition), content_type=CONTENT_TYPE_PLAIN_0_0_4)


class ProjectLevels:
    """The metrics of one project; each sample of a series has its id, so that no two have equal labels."""

    def __init__(
        self,
        project: str,
        series: Sequence[SeriesListItem],
        levels: Mapping[int, NewestLevel],
        open_incidents: int,
        is_truncated: bool,
    ) -> None:
        self._project, self._series, self._levels = project, series, levels
        self._open_incidents, self._is_truncated = open_incidents, is_truncated

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield each metric with its samples, as ``prometheus_client`` asks for them."""
        labels = ["project", "series", *SERIES_LABELS]
        level = GaugeMetricFamily("perfci_level", "Level of a series at its newest commit", labels=labels)
        committed = GaugeMetricFamily(
            "perfci_level_committed_timestamp_seconds",
            "When the newest commit of a series was made",
            labels=["project", "series"],
        )
        for item in self._series:
            if item.id not in self._levels:
                continue
            newest = self._levels[item.id]
            texts = describe_series(item.series)
            level.add_metric(
                [self._project, item.identity, *(texts[name] for name in SERIES_LABELS)], newest.level
            )
            if newest.commit.committed_at is not None:
                seconds = newest.commit.committed_at.timestamp()
                committed.add_metric([self._project, item.identity], seconds)
        yield level
        yield committed
        yield self._build_gauge(
            "perfci_open_incidents", "Incidents that ask for a person", self._open_incidents
        )
        yield self._build_gauge(
            "perfci_levels_truncated", "Whether more series match than the limit", self._is_truncated
        )

    def _build_gauge(self, name: str, help_text: str, value: float) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(name, help_text, labels=["project"])
        gauge.add_metric([self._project], value)
        return gauge


def list_points_of_many_series(call: Call) -> Reply:
    """Return the points of several series as rows without nesting, which a chart of Grafana draws."""
    query: shapes.ChartedPointsQuery = call.query
    with call.store.read() as tx:
        items = load_series_page(
            tx,
            call.required_project.id,
            benchmark=query.benchmark,
            metric=query.metric,
            after=0,
            limit=query.max_series + 1,
        )
        chosen = items[: query.max_series]
        histories = JudgedHistories.load(tx, [item.id for item in chosen])
    complete, rows = len(items) <= query.max_series, []
    for item, label in zip(chosen, _build_labels(item.series for item in chosen), strict=True):
        points = [point for point in histories.get_commit_levels(item.id) if _is_charted(*point, query)]
        complete = complete and len(points) <= query.max_points
        rows += [
            _build_charted_point(item, label, commit, level) for commit, level in points[-query.max_points :]
        ]
    rows.sort(key=lambda row: row.committed_at)
    return Reply(shapes.ChartedPointsShape(items=tuple(rows), complete=complete))


def describe_series(series: Series) -> dict[str, str]:
    """Describe a series in single texts, in which nothing is invisible."""
    return {
        name: make_printable(text, MAX_LABEL_LENGTH)
        for name, text in {
            "benchmark": series.benchmark.name,
            "parameters": ", ".join(f"{name}={value}" for name, value in series.parameters),
            "metric": series.metric.name,
            "unit": series.metric.unit,
            "direction": series.metric.direction,
            "machine": series.machine.label,
            "variant": series.variant.label,
        }.items()
    }


def _build_labels(series: Iterable[Series]) -> list[str]:
    listed = list(series)
    places = SeriesPlaces(listed)
    return [
        make_printable(" · ".join(filter(None, (each.label, places.label(each)))), MAX_LABEL_LENGTH)
        for each in listed
    ]


def _is_charted(commit: Commit, level: float | None, query: shapes.ChartedPointsQuery) -> bool:
    at = commit.committed_at
    if at is None or level is None:
        return False
    return (query.since is None or at >= query.since) and (query.until is None or at < query.until)


def _build_charted_point(
    item: SeriesListItem, label: str, commit: Commit, level: float | None
) -> shapes.ChartedPointShape:
    return shapes.ChartedPointShape.model_validate(
        {
            "committed_at": commit.committed_at,
            "value": level,
            "label": label,
            "series": item.identity,
            "commit": commit.sha,
        }
        | describe_series(item.series)
    )


OPERATIONS = (
    Operation(
        "scrape_levels",
        "GET",
        f"{PROJECT_RULE}/prometheus",
        AccessRequirement.READ,
        scrape_levels,
        "The newest level of each series, for Prometheus",
        query=shapes.LevelsQuery,
        answers={200: StreamedAnswer(CONTENT_TYPE_PLAIN_0_0_4)},
        etag=True,
    ),
    Operation(
        "list_points_of_many_series",
        "GET",
        f"{PROJECT_RULE}/points",
        AccessRequirement.READ,
        list_points_of_many_series,
        "Points of several series as flat rows, for Grafana",
        query=shapes.ChartedPointsQuery,
        answers={200: shapes.ChartedPointsShape},
        etag=True,
    ),
)
