"""Series and what they hang on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import BaseModel

from perfci.auth.permissions import AccessRequirement
from perfci.model import Commit, Machine, Point
from perfci.net.shapes import PageQuery, Shape
from perfci.net.shapes import series as shapes
from perfci.report.charts.series_trend import build_trend, downsample
from perfci.report.serializers import serialize_series, serialize_trend
from perfci.store.queries import measurements, paged_lists
from perfci.store.queries.paged_lists import SeriesListItem
from perfci_web.api import pagination
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation
from perfci_web.api.problems import ProblemError

PROJECT_RULE = "/projects/<project:project>"
RowT = TypeVar("RowT")


def list_series(call: Call) -> Reply:
    asked: shapes.SeriesQuery = call.query
    with call.store.read() as tx:
        found = paged_lists.load_series_page(
            tx,
            call.required_project.id,
            benchmark=asked.benchmark,
            metric=asked.metric,
            after=pagination.parse_cursor(asked.cursor),
            limit=asked.limit + 1,
        )
    return page_reply(shapes.SeriesPage, found, asked, lambda one: one.id, series_shape)


def get_series(call: Call) -> Reply:
    return Reply(series_shape(require_series(call, call.path["series"])))


def get_points(call: Call) -> Reply:
    """The points of one series, binned here, so that a chart asks for what it can draw."""
    asked: shapes.PointsQuery = call.query
    line = require_series(call, call.path["series"])
    with call.store.read() as tx:
        points = [point for point in measurements.load_history(tx, line.id) if _is_within(point, asked)]
        changes = measurements.load_change_points(tx, call.required_project.slug, line.id)
        verdicts = [
            one.verdict
            for one in measurements.load_verdict_records(tx, call.required_project.slug, series_id=line.id)
        ]
    told = serialize_trend(downsample(build_trend(line.series, points, changes, verdicts), asked.max_points))
    return Reply(shapes.SeriesPointsShape.model_validate(told | {"series": series_shape(line)}))


def list_commits(call: Call) -> Reply:
    asked: shapes.CommitQuery = call.query
    with call.store.read() as tx:
        found = paged_lists.load_commits_page(
            tx,
            call.required_project.id,
            branch=asked.branch,
            before=pagination.parse_cursor(asked.cursor),
            limit=asked.limit + 1,
        )
    return page_reply(shapes.CommitPage, found, asked, lambda one: one[0], lambda one: commit_shape(one[1]))


def get_commit(call: Call) -> Reply:
    with call.store.read() as tx:
        found = measurements.find_commit(tx, call.required_project.slug, call.path["sha"])
    if found is None:
        raise ProblemError("not-found", "There is no commit of this sha here.")
    return Reply(commit_shape(found))


def list_machines(call: Call) -> Reply:
    asked: PageQuery = call.query
    with call.store.read() as tx:
        found = paged_lists.load_machines_page(
            tx, call.required_project.id, after=pagination.parse_cursor(asked.cursor), limit=asked.limit + 1
        )
    return page_reply(
        shapes.MachinePage,
        found,
        asked,
        lambda one: one[0],
        lambda one: _machine_shape(one[1], one[2]),
    )


def list_environments(call: Call) -> Reply:
    asked: PageQuery = call.query
    with call.store.read() as tx:
        found = paged_lists.load_environments_page(
            tx, call.required_project.id, after=pagination.parse_cursor(asked.cursor), limit=asked.limit + 1
        )
    return page_reply(
        shapes.EnvironmentPage,
        found,
        asked,
        lambda one: one[0],
        lambda one: shapes.EnvironmentShape(id=one[1], values=dict(one[2].values)),
    )


def page_reply(
    page_model: type[BaseModel],
    rows: Sequence[RowT],
    page_query: PageQuery,
    row_id: Callable[[RowT], int],
    to_shape: Callable[[RowT], Shape],
) -> Reply:
    """One page of a list, with the cursor of the next one."""
    items, following = pagination.cut_page(rows, page_query.limit, row_id)
    return Reply(page_model.model_validate({"items": tuple(map(to_shape, items)), "next": following}))


def series_shape(line: SeriesListItem) -> shapes.SeriesShape:
    return shapes.SeriesShape.model_validate({"id": line.identity} | serialize_series(line.series))


def require_series(call: Call, identity: str) -> SeriesListItem:
    with call.store.read() as tx:
        found = paged_lists.find_series_by_identity(tx, call.required_project.id, identity)
    if found is None:
        raise ProblemError("not-found", "There is no series of this id here.")
    return found


def commit_shape(commit: Commit) -> shapes.CommitShape:
    fields = {name: getattr(commit, name) for name in shapes.CommitShape.model_fields if name != "commit"}
    return shapes.CommitShape.model_validate({"commit": commit.sha} | fields)


def _machine_shape(identity: str, machine: Machine) -> shapes.MachineShape:
    known = {
        name: getattr(machine, name)
        for name in shapes.MachineShape.model_fields
        if name not in ("id", "label")
    }
    return shapes.MachineShape.model_validate({"id": identity, "label": machine.label} | known)


def _is_within(point: Point, time_filter: shapes.PointsQuery) -> bool:
    at = point.commit.committed_at
    if at is None:
        return time_filter.since is None and time_filter.until is None
    return (time_filter.since is None or at >= time_filter.since) and (
        time_filter.until is None or at < time_filter.until
    )


OPERATIONS = (
    Operation(
        "list_series",
        "GET",
        f"{PROJECT_RULE}/series",
        AccessRequirement.READ,
        list_series,
        "Series, in the order they were first seen",
        query=shapes.SeriesQuery,
        answers={200: shapes.SeriesPage},
        etag=True,
    ),
    Operation(
        "get_series",
        "GET",
        f"{PROJECT_RULE}/series/<key:series>",
        AccessRequirement.READ,
        get_series,
        "One series",
        answers={200: shapes.SeriesShape},
        etag=True,
    ),
    Operation(
        "get_points",
        "GET",
        f"{PROJECT_RULE}/series/<key:series>/points",
        AccessRequirement.READ,
        get_points,
        "The points of a series, neighbours merged down to what was asked for",
        query=shapes.PointsQuery,
        answers={200: shapes.SeriesPointsShape},
        etag=True,
    ),
    Operation(
        "list_commits",
        "GET",
        f"{PROJECT_RULE}/commits",
        AccessRequirement.READ,
        list_commits,
        "Commits, those seen last first",
        query=shapes.CommitQuery,
        answers={200: shapes.CommitPage},
        etag=True,
    ),
    Operation(
        "get_commit",
        "GET",
        f"{PROJECT_RULE}/commits/<name:sha>",
        AccessRequirement.READ,
        get_commit,
        "One commit, by its sha or a part",
        answers={200: shapes.CommitShape},
        etag=True,
    ),
    Operation(
        "list_machines",
        "GET",
        f"{PROJECT_RULE}/machines",
        AccessRequirement.READ,
        list_machines,
        "Machine classes that measured here",
        query=PageQuery,
        answers={200: shapes.MachinePage},
        etag=True,
    ),
    Operation(
        "list_environments",
        "GET",
        f"{PROJECT_RULE}/environments",
        AccessRequirement.READ,
        list_environments,
        "Environments observed here",
        query=PageQuery,
        answers={200: shapes.EnvironmentPage},
        etag=True,
    ),
)
